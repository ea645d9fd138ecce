"""The words that the explorer knows, by their role in a request.

Add a word only if it cannot change the meaning of a sentence: negations, comparisons between rows,
causes and predictions stay unknown, so that prompts with them are declined.
"""

from __future__ import annotations

# Allowed anywhere, because they do not change the request.
STOP_LIST = frozenset({"the", "a", "an", "any", "all", "this", "our", "my", "please", "kindly"})

NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five"),
    *("six", "seven", "eight", "nine", "ten"),
)
"""Numbers in words, from zero."""

# tag, value, the ways to write it
_WORDS: tuple[tuple[str, str, str], ...] = (
    ("STAT", "mean", "mean|average|avg|mean value|average value|means|averages"),
    ("STAT", "median", "median|medians"),
    ("STAT", "std", "standard deviation|standard deviations|std|sd|std dev|stdev"),
    ("STAT", "var", "variance"),
    ("STAT", "sum", "sum|total|totals"),
    ("STAT", "skew", "skew|skewness"),
    ("STAT", "mode", "mode|most common|most frequent|most common value|most frequent value"),
    ("STAT", "range", "range|value range"),
    ("STAT", "quartiles", "quartiles"),
    ("EXTREME", "max", "max|maximum|highest|largest|biggest|greatest"),
    ("EXTREME", "min", "min|minimum|lowest|smallest"),
    ("QUANTILE", "", "quantile|quantiles|percentile|percentiles"),
    ("COUNT", "", "how many|number of|count|counts|count of|counts of|frequency|frequencies"),
    ("COUNT", "", "total number of|value counts|value counts of|frequency of|frequencies of"),
    ("SHARE", "", "share|shares|percentage|percentages|proportion|proportions|percent|fraction|%"),
    ("BY", "", "by|per|for each|for every|in each|on each|within each|of each|grouped by|group by"),
    ("BY", "", "split by|broken down by|across|across each"),
    ("AND", "", "and|&|,|as well as|, and"),
    ("OF", "", "of"),
    ("IN", "", "in|from|within|among"),
    ("ON", "", "on"),
    ("FOR", "", "for"),
    ("WITH", "", "with"),
    ("TO", "", "to"),
    ("AS", "", "as|called|named|into"),
    ("WHERE", "", "where|whose|when|having|if|that are|which are|who are|that have|which have"),
    ("IS", "", "is|are|was|were|equals|equal to|is equal to|are equal to|live"),
    ("EQ", "", "=|=="),
    ("OP", ">", ">|above|greater than|more than|larger than|higher than|after"),
    ("OP", ">=", ">=|≥|at least|since"),
    ("OP", "<", "<|under|below|less than|smaller than|lower than|before"),
    ("OP", "<=", "<=|≤|at most"),
    ("OVER", ">", "over"),
    ("BETWEEN", "", "between"),
    ("ROUND", "", "rounded|round|rounded to|round to"),
    ("DECIMALS", "", "decimals|decimal|decimal places|decimal place|digits"),
    ("WHOLE", "", "nearest integer|nearest whole number|whole numbers|integers"),
    ("TOP", "max", "top"),
    ("TOP", "min", "bottom"),
    ("PLOT", "", "plot|plots|draw|graph|chart|visualise|visualize"),
    ("CHART", "hist", "histogram|histograms|hist"),
    ("CHART", "bar", "bar chart|bar plot|bar graph|barplot|bars|bar charts"),
    ("CHART", "scatter", "scatter plot|scatterplot|scatter|scatter chart"),
    ("CHART", "line", "line chart|line plot|line graph|line"),
    ("CHART", "box", "box plot|boxplot|box plots|boxplots|box"),
    ("DISTRIBUTION", "", "distribution|distributions"),
    ("VS", "", "against|vs|vs .|versus|as a function of"),
    ("COLOUR", "", "coloured by|colored by|colour by|color by|hue|colouring by|coloring by"),
    ("CORR", "", "correlation|correlations|correlated|correlate|correlates"),
    ("CORR", "", "correlation coefficient|corr|how correlated|how strongly correlated"),
    ("MATRIX", "", "correlation matrix|correlation table|matrix of correlations"),
    ("METHOD", "pearson", "pearson|pearson's"),
    ("METHOD", "spearman", "spearman|spearman's|spearman rank"),
    ("METHOD", "kendall", "kendall|kendall's"),
    ("PVALUE", "", "p value|p values"),
    ("OUTLIERS", "", "outlier|outliers"),
    ("IQR", "", "iqr|iqr rule|iqr method"),
    ("ZSCORE", "", "z score|z scores"),
    ("MISSING", "", "missing|missing values|missing value|missing data|missing entries|null"),
    ("MISSING", "", "nulls|null values|nan|nans|nan values|missingness"),
    ("DUPLICATES", "", "duplicate|duplicates|duplicated|duplicate rows|duplicated rows"),
    ("DUPLICATES", "", "repeated rows"),
    ("PROFILE", "", "profile|overview|explore|eda|data quality|data quality report|profiling"),
    ("SUMMARY", "", "describe|summary|summarise|summarize|statistics|stats|summary statistics"),
    ("SUMMARY", "", "descriptive statistics|summary stats|descriptive stats"),
    ("ROWS", "", "rows|row|records|observations"),
    ("LINES", "", "lines"),
    ("COLUMNS", "", "columns|column|fields"),
    ("COLUMNS", "", "column names|names of columns"),
    ("TYPES", "", "types|type|dtypes|data types|column types|columns types"),
    ("SIZE", "", "shape|size|dimensions|how big|how large"),
    ("FIRST", "head", "first"),
    ("FIRST", "tail", "last"),
    ("END", "head", "head"),
    ("END", "tail", "tail"),
    ("LOOKS", "", "look like|looks like"),
    ("COMPARATIVE", "max", "higher|larger|greater"),
    ("COMPARATIVE", "min", "lower|smaller"),
    ("VIA", "", "using|via"),
    ("UNIQUE", "", "unique|distinct|different"),
    ("VALUES", "", "values|value|levels|categories"),
    ("LOAD", "", "load|import|load in|read in"),
    ("SHOW", "", "show|open|read|print|display|list|view|see|look at"),
    ("FILES", "", "files|file|data files"),
    ("LOOK", "", "look around|what is here|what's here|what is in the workspace"),
    ("LOOK", "", "what's in the workspace|look at the workspace|look around the workspace"),
    ("LOOK", "", "what is in the folder|what's in the folder|folder|workspace"),
    ("VARIABLES", "", "variables|objects|dataframes|data frames|live variables"),
    ("NOUN", "", "table|data|dataset|dataframe|data frame|data set"),
    ("INSPECT", "", "inspect"),
    ("ENDING", "csv", "csv"),
    ("ENDING", "tsv", "tsv"),
    ("ENDING", "json", "json"),
    ("ENDING", "parquet", "parquet"),
    ("ENDING", "xlsx", "xlsx|excel"),
    ("ENDING", "py", "python"),
    ("ENDING", "ipynb", "notebook"),
    ("HELP", "", "help|what can you do|what do you do|who are you|what are you"),
    ("HELP", "", "what can i ask|how does this work|what can i do|how do you work"),
    ("HELP", "", "help me|what can i ask you|are you a language model|what else can you do"),
    ("THANKS", "", "thanks|thank you|thx|great|nice|cool|perfect|well done|thanks a lot"),
    ("COMPARE", "", "compare|comparison|comparison of"),
    ("DIFFERENCE", "", "difference|differences|differ|differs"),
    ("NEW", "", "add|create|make|derive|new|add new|create new|make new"),
    ("RATIO", "", "ratio"),
    ("ARITH", "+", "+|plus"),
    ("ARITH", "-", "-|minus"),
    ("ARITH", "*", "*|times|multiplied by"),
    ("ARITH", "/", "/|divided by"),
    ("HAS", "", "has|have|had|contain|contains"),
    ("BOOL", "true", "true"),
    ("BOOL", "false", "false"),
    ("PERIOD", "day", "day|daily"),
    ("PERIOD", "week", "week|weekly"),
    ("PERIOD", "month", "month|monthly"),
    ("PERIOD", "quarter", "quarter|quarterly"),
    ("PERIOD", "year", "year|yearly"),
    ("DATES", "", "date range|time range|date span|time span|range of dates|period covered"),
    ("RESAMPLE", "", "resample|resampled"),
    ("STOP", "", ".|?|!|;|:|(|)"),
    *(("NUMBER", str(n), word) for n, word in enumerate(NUMBER_WORDS)),
)  # fmt: skip

PHRASES: dict[tuple[str, ...], tuple[str, str]] = {
    tuple(w for w in phrase.replace(",", " , ").split() if w not in STOP_LIST): (tag, value)
    for tag, value, phrases in _WORDS
    for phrase in phrases.split("|")
}

# Allowed before, after and within a request.
_BEFORE = (
    "hey|hi|hello|ok|okay|so|now|and|can you|could you|would you|will you|can i|can we|i want to|"
    "i want|i would like to|i'd like to|i would like|i'd like|i need to|i need|let's|let us|"
    "tell me|tell us|show me|give me|give us|get me|give|find|find out|compute|calculate|get|know|"
    "report|return|what is|what's|what are|what was|what were|what|which|is there|are there|"
    "do we have|do i have|how does|how do|there are|look for|check for|check|me|make me|see|"
    "determine|draw me|plot me|how is|how strongly|how closely|does|do|what does|what do|"
    "just show me|just give me"
)
_AFTER = (
    "for me|are there|is there|there are|there is|we have|i have|do we have|do i have|in total|"
    "altogether|overall|thanks|thank you|there|exist|please|now|have|does it have|do they have|"
    "at all"
)
_AMID = "are there|is there|there are|there is|does|do"


def _phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Return phrases as words, the longest first."""
    return tuple(sorted((tuple(each.split()) for each in text.split("|")), key=len, reverse=True))


BEFORE, AFTER, AMID = map(_phrases, (_BEFORE, _AFTER, _AMID))

# Words that invert a sentence. They are no values, so nothing is run to look them up.
_TURNING = """
    not without excluding except exclude excludes other neither nor or either why because than only
    unless but ignore ignoring drop remove delete predict forecast cause causes caused should could
    would significant significantly reason reasons explain likely expect expected best worst
    normalise normalize scale cluster clusters train model fit regression interesting never isn't
    aren't don't doesn't wasn't weren't until although instead increase decrease changed change
    changes improve email send write save rename replace fill impute convert merge join pivot sort
    then each also else weighted second third half double about test more fewer less next
    previous rolling cumulative moving growth trend log squared trimmed geometric harmonic relative
    adjusted sorted ordered heavier lighter heaviest lightest bigger smaller taller longer shorter
    longest shortest older newer oldest newest who how changed typical normal normally distributed
"""
TURNING = frozenset(_TURNING.split())
