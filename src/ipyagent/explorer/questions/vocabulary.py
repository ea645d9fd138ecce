"""The words of questions, by their role. What is in no list is declined, and named.

Idle words may stand anywhere and change nothing; an entity says whose rows they are. Negations,
alternatives and comparisons between rows are in no list: they would change the answer.
"""

from __future__ import annotations

from ipyagent.explorer.names import Words
from ipyagent.explorer.vocabulary import NUMBER_WORDS

_IDLE_WORDS = """
    the a an any all this that these those our my your please kindly hey hi hello ok okay so now
    i me us
    you we can could would will want need like know to i'd let's it its their they them there s
    what which who whats calculate compute find out determine tell show give get report return
    identify check whether perform run conduct do does did done make made apply using use via
    based according by's is are was were be been being column columns variable variables feature
    features field fields value values data dataset datasets set file table csv named called name
    answer answers result results output final corresponding respective respectively overall given
    provided following statistical statistically built library python function
    stats module one own here then also both two simple please thanks exactly total's available
    contained observed measured lie lies level levels ask asked question whose's
    appropriate method methods approach rule technique analysis test tests within case
    calculation calculations computation report reporting display how ll re ve d entries
    form fit predicts predict predicting coefficient score scores size statsmodels
    resulting obtained associated off rounding's type
    coming belonging across inclusive
"""
IDLE = frozenset(_IDLE_WORDS.split())

_ENTITIES_WORDS = """
    row record observation entry sample point case instance individual participant
    respondent subject patient customer client user passenger student employee worker household
    house home property country city town state district region company firm store shop product
    item order transaction player team game match movie film book song car vehicle flight trip
    animal plant flower wine day year month week member woman people unit
    tumour tumor house listing apartment station school university county province nation
    visitor guest applicant candidate child children voter driver test-taker
"""
ENTITIES = frozenset(_ENTITIES_WORDS.split()) - {"child", "woman"}

# tag, value, the ways to write it
_WORDS: tuple[tuple[str, str, str], ...] = (
    ("STAT", "mean", "mean|average|avg|mean value|average value|arithmetic mean|on average"),
    ("STAT", "median", "median|median value"),
    ("STAT", "std", "standard deviation|std|sd|std dev|stdev|sample standard deviation"),
    ("STAT", "pstd", "population standard deviation"),
    ("STAT", "var", "variance|sample variance"),
    ("STAT", "pvar", "population variance"),
    ("STAT", "sum", "sum|total|total sum"),
    ("STAT", "skew", "skew|skewness"),
    ("STAT", "kurt", "kurtosis|excess kurtosis"),
    ("STAT", "range", "range"),
    ("STAT", "iqr", "interquartile range of|interquartile range|iqr of"),
    ("EXTREME", "max", "max|maximum|highest|largest|biggest|greatest|maximum value|highest value"),
    ("EXTREME", "max", "largest value|max value"),
    ("EXTREME", "min", "min|minimum|lowest|smallest|minimum value|lowest value|smallest value"),
    ("EXTREME", "min", "min value"),
    ("MODE", "", "most common|most frequent|most frequent value|most common value"),
    ("OFTEN", "", "occurs most often|appears most often|occurs most frequently"),
    ("TIMES", "", "how often it occurs|how often it appears|its frequency"),
    ("QUANTILE", "", "percentile|quantile"),
    ("COUNT", "", "how many|number of|count|count of|total number of|the number"),
    ("SHARE", "", "percentage|percent|proportion|share|fraction|percentage of|what percent of"),
    ("UNIQUE", "", "unique|distinct|different"),
    ("MISSING", "", "missing|missing values|null|nulls|null values|nan|nan values|missing value"),
    ("NO", "", "have no|has no"),
    ("RECORDED", "", "recorded|listed|reported"),
    ("MOST", "", "most|most missing"),
    ("COLUMN", "", "which column|which variable|what column|which columns"),
    ("COLUMNMOST", "", "column with the most|column with the highest|column with the largest"),
    ("COLUMNMOST", "", "variable with the most|column has the most|which column has the most"),
    ("NORMAL", "", "normally distributed|normal distribution|normality|normal|gaussian"),
    ("NORMAL", "", "follow a normal distribution|follows a normal distribution"),
    ("NORMAL", "", "adhere to a normal distribution|adheres to a normal distribution"),
    ("NORMAL", "", "gaussian distribution"),
    ("DISTRIBUTION", "", "distribution|distribution of"),
    ("SHAPIRO", "", "shapiro wilk|shapiro|shapiro wilk test|shapiro wilk's|shapiro wilk test for"),
    ("DAGOSTINO", "", "d'agostino|d'agostino's k squared|d'agostino's|d'agostino pearson"),
    ("DAGOSTINO", "", "normaltest|d'agostino's k squared test|d agostino"),
    ("CORR", "", "correlation|correlated|correlate|correlation coefficient|correlates"),
    ("CORR", "", "linear correlation|relationship"),
    ("STRONG", "", "strongly|strongest|most strongly|how strongly"),
    ("METHOD", "pearson", "pearson|pearson's|pearson's r|pearson's coefficient"),
    ("METHOD", "spearman", "spearman|spearman's|spearman rank|spearman's coefficient"),
    ("METHOD", "kendall", "kendall|kendall's|kendall tau|kendall's tau"),
    ("PVALUE", "", "p value|p values|p"),
    ("STATISTIC", "", "test statistic|t statistic|statistic|t value|chi squared statistic"),
    ("SIGNIFICANT", "", "significant|significantly|statistically significant|significance"),
    ("ALPHA", "", "significance level|alpha|significance level alpha|level of significance"),
    ("IQR", "", "iqr|interquartile range method|interquartile range rule|iqr rule|iqr method"),
    ("ZSCORE", "", "z score|z scores|zscore|z score method"),
    ("THRESHOLD", "", "threshold|cutoff"),
    ("TIMESIQR", "", "times the iqr|times the interquartile range|iqrs"),
    ("OUTLIERS", "", "outlier|outliers"),
    ("REGRESSION", "", "linear regression|regression|simple linear regression|least squares line"),
    ("REGRESSION", "", "linear regression model|ordinary least squares line|regression line"),
    ("INDEPENDENT", "", "independent variable|predictor|explanatory variable"),
    ("DEPENDENT", "", "dependent variable|response|target variable|target"),
    ("PREDICTS", "", "predicts|predict|to predict|predicting|that predicts"),
    ("SLOPE", "", "slope|slope coefficient"),
    ("INTERCEPT", "", "intercept"),
    ("RSQUARED", "", "r squared|r2|r²|coefficient of determination|r squared value"),
    ("FUNCTION", "", "as a function of"),
    ("TTEST", "", "t test|independent t test|two sample t test|independent two sample t test"),
    ("TTEST", "", "independent samples t test|student's t test|student t test"),
    ("WELCH", "", "welch's t test|welch t test|welch's|welch|unequal variances"),
    ("CHI2", "", "chi squared test|chi square test|chi squared|chi square"),
    ("CHI2", "", "chi squared test of independence|chi square test of independence"),
    ("INDEPENDENCE", "", "independent|independence"),
    ("COMPARE", "", "compare|comparison"),
    ("DIFFERENCE", "", "difference|differ|differences"),
    ("GROUP", "", "group|grouped"),
    ("BY", "", "by|per|for each|in each|of each|within each|each|for every|grouped by|group by"),
    ("AND", "", "and|&|,|as well as|along with|, and"),
    ("OF", "", "of"),
    ("IN", "", "in|among|within|from"),
    ("ON", "", "on"),
    ("FOR", "", "for"),
    ("WITH", "", "with"),
    ("HAS", "", "have|has|had|that have|which have|having"),
    ("AS", "", "as"),
    ("TO", "", "to"),
    ("WHERE", "", "where|whose|when|in which|for which|that are|which are|who are|in rows where"),
    ("ONLY", "", "only|consider only|only consider|only include|considering only|consider"),
    ("ONLY", "", "considering|include|include only|restrict to|restricted to|filter"),
    ("IGNORE", "", "ignore missing values|ignoring missing values|drop missing values"),
    ("IGNORE", "", "exclude missing values|ignore nan values|ignore null values"),
    ("IGNORE", "", "excluding missing values|missing values are ignored|skip missing values"),
    ("EQ", "", "=|==|equal to|equals|is equal to"),
    ("IS", "", "is|are|was|were|be"),
    ("OP", ">", ">|above|greater than|more than|larger than|higher than|exceeds|exceeding|over"),
    ("OP", ">", "exceed|bigger than"),
    ("BEFORE", "<", "before"),
    ("BEFORE", ">", "after"),
    ("BEFORE", ">=", "since"),
    ("AT", "", "at"),
    ("OP", ">=", ">=|≥|at least|greater than or equal to|no less than"),
    ("OP", "<", "<|under|below|less than|smaller than|lower than|fewer than"),
    ("OP", "<=", "<=|≤|at most|less than or equal to|no more than"),
    ("THAN", ">age", "older than|aged over"),
    ("THAN", "<age", "younger than|aged under"),
    ("THAN", ">weight", "heavier than|weigh over|weigh more than|weighing more than"),
    ("THAN", "<weight", "lighter than|weigh less than|weighing less than"),
    ("THAN", ">height", "taller than"),
    ("THAN", ">price", "more expensive than"),
    ("THAN", "<price", "cheaper than"),
    ("AGED", "age", "aged"),
    ("BETWEEN", "", "between"),
    ("ROUND", "", "round|rounded|rounding|rounded off|rounding off|round off|precise"),
    ("DECIMALS", "", "decimals|decimal|decimal places|decimal place|digits"),
    ("WHOLE", "", "nearest integer|nearest whole number|whole number|integer|nearest whole"),
    ("LIBRARY", "pandas", "pandas|pandas'"),
    ("LIBRARY", "scipy", "scipy|scipy stats"),
    ("LIBRARY", "numpy", "numpy"),
    ("IDLE", "", "which one|the one|i'd|one of"),
    ("IF", "", "if"),
    ("NOT", "", "not"),
    ("ROWS", "", "rows|records|observations"),
    ("COLUMNS", "", "number of columns|how many columns"),
    ("SIZE", "", "how many rows and columns|shape|number of rows and columns"),
    *(("NUMBER", str(n), word) for n, word in enumerate(NUMBER_WORDS)),
)  # fmt: skip

# Words of the phrases that are idle elsewhere would be lost; so phrases are matched first.
PHRASES: dict[Words, tuple[str, str]] = {
    tuple(phrase.replace("'s", " s").replace("'", " ").replace(",", " , ").split()): (tag, value)
    for tag, value, phrases in _WORDS
    for phrase in phrases.split("|")
}

LONGEST = max(map(len, PHRASES))

_MEASUREMENTS_WORDS = """
    rate rates level levels content amount amounts time times score scores size sizes speed
    measurement measurements reading readings figure figures
"""
MEASUREMENTS = frozenset(_MEASUREMENTS_WORDS.split())
"""Nouns after a column's name that add nothing to it, as in `poverty rate` for `poverty`."""

_NO_NAMES_WORDS = """
    value values data dataset column columns variable variables answer answers result results file
    table the a an i me us so all any this that it its their is are was were be do does did by s t d
    and of in
"""
NO_NAMES = frozenset(_NO_NAMES_WORDS.split())
"""Words that are no names of columns, unless they are quoted."""

_FORM_WORDS = """
    where is a an the are be should must float floating point number numeric integer whole decimal
    decimals places place rounded round up to two three four one five six zero 1 2 3 4 5 6 value
    values string str text name as it stands in file either or yes no true false boolean with non
    negative positive between and representing represents calculated both all here each respectively
    percentage percent of up denotes real list format answer result for that column each slot
    corresponding which must will contain contains containing exactly such without any sign symbol
    0 100 has have
"""
FORM = frozenset(_FORM_WORDS.split())
"""Words that describe the form of an answer, and nothing of how to find it."""
