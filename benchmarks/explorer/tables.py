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
        "engel.csv",
        "households",
        {"income": ["income", "household income"], "foodexp": ["food expenditure", "foodexp"]},
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
        "Palmer penguins.csv",
        "penguins",
        {
            "bill_length_mm": ["bill length", "bill_length_mm"],
            "bill_depth_mm": ["bill depth"],
            "flipper_length_mm": ["flipper length", "flipper_length_mm"],
            "body_mass_g": ["body mass", "weight"],
            "species": ["species"],
            "island": ["island"],
            "sex": ["sex", "gender"],
        },
        ["species", "island", "sex"],
    ),
    TableWords(
        "iris flowers.csv",
        "flowers",
        {
            "sepal length (cm)": ["sepal length", "sepal length (cm)"],
            "sepal width (cm)": ["sepal width"],
            "petal length (cm)": ["petal length"],
            "petal width (cm)": ["petal width", "width of the petals"],
            "species": ["species"],
        },
        ["species"],
    ),
    TableWords(
        "macrodata.csv",
        "quarters",
        {
            "realgdp": ["real GDP", "realgdp"],
            "realcons": ["real consumption", "realcons"],
            "cpi": ["CPI", "consumer price index"],
            "unemp": ["unemployment", "unemp", "unemployment rate"],
            "infl": ["inflation", "infl"],
            "pop": ["population", "pop"],
        },
    ),
]
