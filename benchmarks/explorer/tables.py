"""How people speak of the columns of the tables in tests/explorer/data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class TableWords:
    """A table: its file, whose rows they are, its columns and their names in speech."""

    file: str
    entity: str
    spoken: dict[str, list[str]]
    texts: list[str] = field(default_factory=list)
    label: str = ""  # the column that names a row

    @property
    def numbers(self) -> list[str]:
        return [c for c in self.spoken if c not in (*self.texts, self.label)]


TABLES = [
    TableWords(
        "cars.csv",
        "cars",
        {
            "Miles_per_Gallon": ["miles per gallon", "Miles_per_Gallon", "MPG"],
            "Horsepower": ["horsepower", "Horsepower", "horse power"],
            "Weight_in_lbs": ["weight in lbs", "weight", "Weight_in_lbs"],
            "Acceleration": ["acceleration"],
            "Displacement": ["displacement", "engine displacement"],
            "Origin": ["origin", "Origin", "country of origin"],
        },
        ["Origin"],
    ),
    TableWords(
        "seattle-weather.csv",
        "days",
        {
            "precipitation": ["precipitation"],
            "temp_max": ["maximum temperature", "temp_max", "temp max"],
            "temp_min": ["minimum temperature", "temp_min"],
            "wind": ["wind", "wind speed"],
            "weather": ["weather", "weather type"],
        },
        ["weather"],
    ),
    TableWords(
        "iowa-electricity.csv",
        "records",
        {
            "net_generation": ["net generation", "net_generation", "generation"],
            "source": ["source", "energy source"],
        },
        ["source"],
    ),
    TableWords(
        "barley.csv",
        "plots",
        {
            "yield": ["yield", "barley yield"],
            "year": ["year"],
            "variety": ["variety"],
            "site": ["site", "location"],
        },
        ["variety", "site"],
    ),
    TableWords(
        "driving.csv",
        "years",
        {"miles": ["miles", "miles driven"], "gas": ["gas", "gas price"], "year": ["year"]},
    ),
    TableWords(
        "stock prices.csv",
        "records",
        {
            "price": ["price", "stock price", "closing price"],
            "symbol": ["symbol", "ticker symbol", "stock"],
        },
        ["symbol"],
    ),
    TableWords(
        "Italian wines.csv",
        "wines",
        {
            "Alcohol": ["alcohol", "alcohol content"],
            "MalicAcid": ["malic acid", "MalicAcid"],
            "Ash": ["ash"],
            "Magnesium": ["magnesium"],
            "TotalPhenols": ["total phenols", "TotalPhenols"],
            "ColorIntensity": ["color intensity", "colour intensity", "ColorIntensity"],
            "Hue": ["hue"],
            "Proline": ["proline"],
        },
    ),
    TableWords(
        "tumours.csv",
        "tumours",
        {
            "radius": ["radius", "tumour radius"],
            "texture": ["texture"],
            "perimeter": ["perimeter"],
            "area": ["area"],
            "smoothness": ["smoothness"],
            "compactness": ["compactness"],
            "diagnosis": ["diagnosis"],
        },
        ["diagnosis"],
    ),
    TableWords(
        "diabetes.csv",
        "patients",
        {
            "AGE": ["age", "AGE"],
            "BMI": ["BMI", "bmi", "body mass index"],
            "BP": ["BP", "blood pressure"],
            "S5": ["S5"],
            "PROGRESSION": ["progression", "disease progression", "PROGRESSION"],
        },
    ),
    TableWords(
        "fitness_club.csv",
        "members",
        {
            "Chins": ["chins", "Chins"],
            "Situps": ["situps", "sit-ups"],
            "Jumps": ["jumps"],
            "Weight": ["weight"],
            "Waist": ["waist"],
            "Pulse": ["pulse"],
        },
    ),
    TableWords(
        "state crime 2009.csv",
        "states",
        {
            "violent": ["violent", "violent crime"],
            "murder": ["murder", "murder rate"],
            "hs_grad": ["hs_grad", "high school graduation"],
            "poverty": ["poverty", "poverty rate"],
            "single": ["single"],
            "urban": ["urban"],
            "state": ["state"],
        },
        [],
        "state",
    ),
    TableWords(
        "stackloss.csv",
        "observations",
        {
            "STACKLOSS": ["stack loss", "STACKLOSS"],
            "AIRFLOW": ["air flow", "AIRFLOW", "airflow"],
            "WATERTEMP": ["water temperature", "WATERTEMP", "water temp"],
            "ACIDCONC": ["acid concentration", "ACIDCONC"],
        },
    ),
    TableWords(
        "copper.csv",
        "years",
        {
            "WORLDCONSUMPTION": ["world consumption", "WORLDCONSUMPTION"],
            "COPPERPRICE": ["copper price", "COPPERPRICE"],
            "INCOMEINDEX": ["income index"],
            "ALUMPRICE": ["aluminium price", "ALUMPRICE"],
            "INVENTORYINDEX": ["inventory index"],
        },
    ),
    TableWords(
        "engel.csv",
        "households",
        {"income": ["income", "household income"], "foodexp": ["food expenditure", "foodexp"]},
    ),
    TableWords(
        "creditcard.csv",
        "customers",
        {
            "AVGEXP": ["average expenditure", "AVGEXP"],
            "AGE": ["age"],
            "INCOME": ["income", "INCOME"],
        },
    ),
    TableWords(
        "grunfeld.csv",
        "observations",
        {
            "invest": ["invest", "investment"],
            "value": ["value", "firm value"],
            "capital": ["capital"],
            "firm": ["firm", "company"],
        },
        ["firm"],
    ),
    TableWords(
        "longley.csv",
        "years",
        {
            "TOTEMP": ["total employment", "TOTEMP"],
            "GNP": ["GNP", "gross national product"],
            "UNEMP": ["unemployment", "UNEMP"],
            "POP": ["population", "POP"],
            "ARMED": ["armed forces", "ARMED"],
        },
    ),
    TableWords(
        "marriage survey.csv",
        "women",
        {
            "age": ["age"],
            "yrs_married": ["years married", "yrs_married"],
            "children": ["children", "number of children"],
            "educ": ["education", "educ"],
            "rate_marriage": ["marriage rating", "rate_marriage"],
            "affairs": ["affairs"],
        },
    ),
    TableWords(
        "scotvote.csv",
        "districts",
        {
            "YES": ["YES", "yes vote"],
            "COUTAX": ["council tax", "COUTAX"],
            "MOR": ["MOR", "mortality"],
            "GDP": ["GDP", "gdp"],
            "AGE": ["age", "AGE"],
            "COUNCILDIST": ["council district", "COUNCILDIST"],
        },
        [],
        "COUNCILDIST",
    ),
    TableWords(
        "heart.csv", "patients", {"survival": ["survival", "survival time"], "age": ["age"]}
    ),
]
