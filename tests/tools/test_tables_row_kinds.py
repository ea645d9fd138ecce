"""Rows that are no data, or may be none: odd files, and what is read of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
from reading_faults import find_fault

DOUBT = None
"""No number may be said: both readings are offered."""

TOA5 = (
    '"TOA5","CR1000","CR1000","1234","CR1000.Std.32","CPU:a.CR1","55","Hourly"\n'
    '"TIMESTAMP","RECORD","v","RH"\n"TS","RN","Deg C","%"\n"","","Avg","Smp"\n'
    '"2024-01-01 00:00:00",0,10.5,80\n"2024-01-01 01:00:00",1,11.5,81\n'
    '"2024-01-01 02:00:00",2,"NAN",82\n'
)
DATEV = (
    '"EXTF";700;21;"Buchungsstapel";13;20240130140440439;;"RE";"";"";29098;55003;20240101;4\r\n'
    '"v";"Soll/Haben-Kennzeichen";"WKZ Umsatz";"Konto";"Belegdatum";"Text"\r\n'
    '1000,50;"S";"EUR";1200;0101;"Miete"\r\n50,25;"H";"EUR";1600;0201;"B\u00fcro"\r\n'
)
QUALTRICS = (
    'v,Q2,Duration\n"How old are you?","How satisfied are you?","Duration (in seconds)"\n'
    '"{""ImportId"":""QID1""}","{""ImportId"":""QID2""}","{""ImportId"":""duration""}"\n'
    "20,5,100\n30,3,200\n40,1,300\n"
)
MEANS: dict[str, float | None] = {
    # units and labels below the header
    "t,v,n\ns,m/s,-\n0,1,1\n1,2,1\n3,6,1\n": DOUBT,
    "t,v\n(s),(m/s)\n0,1\n1,2\n3,6\n": DOUBT,
    "name,v\n,m/s\na,1\nb,2\nc,6\n": DOUBT,
    "id,v,income\nIdentifier,Age in years,Yearly income in EUR\n1,2,1\n2,3,2\n3,4,3\n": DOUBT,
    QUALTRICS: DOUBT,
    TOA5: 11,
    DATEV: 525.375,
    # months below years
    "Year,v,w\nMonth,1,2\nOslo,10,20\nUlm,11,21\nRom,12,22\n": DOUBT,
    "Year,v,w\n2020,1,2\n2021,2,3\n2022,3,4\n": 2,
    # totals
    "city,v\nOslo,1\nTotal,1\n": DOUBT,
    "ciudad;v\nA;1\nB;2\nC;3\nTotal general;6\n": DOUBT,
    "ort;v\nA;1\nB;2\nC;3\nGesamtsumme;6\n": DOUBT,
    "ort;v\nA;1\nB;2\nC;3\nSumme aller Orte;6\n": DOUBT,
    "region,v\nN,1\nS,2\nE,3\nAll regions,6\n": DOUBT,
    "region,v\nN,1\nS,2\nE,3\nTotal 2024,6\n": DOUBT,
    "region,v\nN,1\nS,2\nE,6\nAverage,3\n": DOUBT,
    "region,v\nN,1\nS,2\nE,6\nMean,3\nStd,2\n": DOUBT,
    "region,v\nN,1\nS,2\nE,6\n,9\n": DOUBT,
    "region,v\nN,1\nS,2\nE,6\nC,4\nD,5\nEnglandwide,18\n": DOUBT,
    "region,v\nN,1\nS,2\nE,6\nTotal,9\n\nSource: Census\n": DOUBT,
    "Report\n\nregion,v\nN,1\nSubtotal,1\nS,2\nSubtotal,2\nTotal,3\n": DOUBT,
    "region,shop,v\nN,a,1\nN,b,2\nN Total,,3\nS,a,4\nS Total,,4\nGrand Total,,7\n": DOUBT,
    "region,v\nN,1\nS,2\nE,3\n": 2,
    "grade,v\nAverage,1\nGood,2\nAverage,3\n": 2,
    # a second table
    "city,v\nOslo,1\nRome,2\n\nproduct,amount\npen,10\nink,20\n": DOUBT,
    "city,v\nOslo,1\nRome,2\n\nproduct,amount,price\npen,10,3\nink,20,4\n": DOUBT,
    "city,v\nOslo,1\nRome,2\n\ncity,v\nBonn,10\nUlm,20\n": DOUBT,
    "Table 1\ncity,v\nOslo,1\nRome,2\n\nTable 2\ncity,v\nBonn,10\nUlm,20\n": DOUBT,
    "Station:,Bonn\nUnit:,mm\n\nday,v,wind\n2024-01-01,1,1\n2024-01-02,2,3\n": 1.5,
    "city,v\nOslo,1\n\nRome,2\n": 1.5,
    # lines that are quoted as a whole
    '"id,name,v"\n"1,Ann,10"\n"2,Bob,20"\n': 15,
    '"id;v"\n"1;1,5"\n"2;2,5"\n': 2,
    '"city","v"\n"Oslo","1"\n"Rome","2"\n': 1.5,
    # sentinels and codes
    "id,v\n" + "".join(f"{i},{i % 7}\n" for i in range(60_000)) + "60000,-9999\n": DOUBT,
    "id,v\n" + "".join(f"{i},{i}.5\n" for i in range(120_000)): 59_999.5 + 0.5,
    "city,v\nA,10\nB,-9999\nC,12\nD,14\n": DOUBT,
    "city,v\nA,10.5\nB,-999.0\nC,12\nD,14\n": DOUBT,
    "city;v\nA;10,5\nB;-999,0\nC;12,5\nD;14\n": DOUBT,
    "city,v\nA,10.5\nB,9999\nC,12\nD,14\n": DOUBT,
    "city,v\nA,10.5\nB,999.9\nC,12\nD,14\n": DOUBT,
    "city,v\nA,10.5\nB,-999\nC,-9999\nD,14\n": DOUBT,
    "depth,v\n1,1.5\n2,-999.25\n3,2.5\n": DOUBT,
    "lat,v\n1,271.5\n2,9.96921e+36\n3,272.5\n": DOUBT,
    "city,v\nA,10\nB,99\nC,12\nD,14\n": 33.75,
    "city,v\nA,9997\nB,9998\nC,9999\nD,10000\n": 9998.5,
    "city,v\nA,-900\nB,-999\nC,-1050\nD,-1100\n": -1012.25,
    "country,v\nDE,80\nNA,2\nFR,62\n": 48,
    "country,v\nDE,80\nNA,-999\nFR,62\n": DOUBT,
    "w,v\n10,1\n-9999,2\n12,3\n": 2,
    "answer,v\nYES,80\nNA,2\nNO,62\n": 48,
    "name,v\na,1\nb,k.A.\nc,3\n": 2,
    "name,v\na,1\nb,..\nc,3\n": 2,
    "name,v\na,1\nb,:\nc,3\n": 2,
    "name,v\na,1\nb,\\N\nc,3\n": 2,
    "name,v\na,1\nb,#DIV/0!\nc,3\n": 2,
    # days of which either the day or the month may come first
    "d,v\n01/02/2024,1\n03/04/2024,2\n": 1.5,
    "d,v\n1-2-24,1\n3-4-24,2\n": 1.5,
    "w;v\n1,234;1\n5,678;2\n": 1.5,
    "w;v\n1;1,234\n2;5,678\n": DOUBT,
    "d;w;v\n01/02/2024;1,234;1\n03/04/2024;5,678;2\nTotal;6,912;3\n": DOUBT,
    "d,v\n13/02/2024,1\n03/04/2024,2\n": 1.5,
    # lines that are no data
    "city,v\nOslo,1\nRome,2\ncity,v\nBonn,3\n": 2,
    "city|v\n----|----\nOslo|1\nRome|2\n": 1.5,
    "city,v\nOslo,1\nRome,2\nBonn,3\nSource: Census\n": 2,
    'city,v,n\nOslo,1,1\nRome,2,2\nBonn,3,3\n"Source: Census, 2024"\n': 2,
    'city,v,n\nOslo,1,1\nRome,2,2\nBonn,3,3\n"Source: Census, 2024",,\n': 2,
    'city,v,n\nOslo,1,1\nRome,2,2\nBonn,3,3\n,,\nSource: Census,,\n"* preliminary",,\n': 2,
    "city,v\nOslo,1\nRome,2\nBonn,3\n(3 rows affected)\n": 2,
    "city,v\nOslo,1\nRome,2\nBonn,3\nEOF\n": 2,
    "city,v\nOslo,1\nRome,2\nBonn,3\n\nPrinted 2024-01-01\n": 2,
    "// station 5, south\n// unit: mm\ncity,v\nOslo,1\nRome,2\n": 1.5,
    "# city,v\nOslo,1\nRome,2\n": 1.5,
    "# a station\n#\n# STN,YYYYMMDD,   v\n260,20240101,   50\n260,20240102,   60\n": 55,
    "Report;2024\nCreated by;me\nname;v\na;1\nb;2\nc;6\n": DOUBT,
}
BOOKS: list[tuple[list[list[Any]], float | None]] = [
    ([["c", "v"], ["a", 1], ["Subtotal", 1], ["b", 2], ["Subtotal", 2], ["Total", 3]], DOUBT),
    ([["c", "v"], ["a", 1], ["b", 2], [], ["product", "amount"], ["pen", 10]], DOUBT),
    ([["Sales"], ["c", "v"], ["a", 1], [], ["Stock"], ["product", "n"], ["pen", 10]], DOUBT),
    ([["t", "v"], ["s", "m/s"], [0, 1], [1, 2], [2, 6]], DOUBT),
    ([["c", "v"], ["a", 10], ["b", -9999], ["d", 12]], DOUBT),
    ([["c", "v"], ["a", 1], ["b", 2], ["Source: Census"]], 1.5),
    ([["c", "v"], ["a", 1], ["c", "v"], ["b", 2]], 1.5),
]


def test_no_row_is_counted_in_silence_that_may_be_no_data(tmp_path: Path) -> None:
    faults = {}
    for data, mean in MEANS.items():
        (tmp_path / "t.csv").write_text(data, "cp1252" if data == DATEV else "utf-8")
        faults[data] = find_fault(tmp_path / "t.csv", mean)
    for rows, mean in BOOKS:
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(tmp_path / "t.xlsx")
        faults[repr(rows)] = find_fault(tmp_path / "t.xlsx", mean)
    assert not {data: fault for data, fault in faults.items() if fault}
