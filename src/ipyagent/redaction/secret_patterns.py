"""Patterns of secrets: tokens with typical forms, values in typical places, and their names.

Variables, keys, columns and arguments have such names; the environment is searched by them.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import lru_cache
from urllib.parse import unquote

from ipyagent.json_types import JsonDict

MASK = "••••••"
"""Shown instead of an argument with a secret name."""

_ACCOUNTS = (
    r"(?:smtp|imap|pop3?|e?mail|db|database|(?:my|ms)?sql|pg|postgres(?:ql)?|maria(?:db)?|oracle"
    r"|mongo(?:db)?|redis|rabbit(?:mq)?|amqp|mqtt|kafka|elastic(?:search)?|ldap|s?ftp|ssh|sudo|root"
    r"|admin|users?|login|account|app|api|basic|http|proxy|vpn|wifi|wpa|key(?:store)?|trust_?store"
    r"|cert|docker|registry|jenkins|artifactory|nexus|jira|git|svc|service|server|host|zip|backup)"
)
"""Names beside which `pass` means a password: alone it could be a filter, test or ticket."""

_SURE = re.compile(
    r"passw|authori[sz]ation|credential|passphrase|(?:private|api|access|auth)_?key"
    r"|contrase[nñ]a|mot_?de_?passe|(?:^|_)(?:kennwort|senha|storepass)(?:_|$)"
    r"|pass(?:code|key)|(?:seed|recovery)_?phrase|mnemonic|(?:^|_)creds?(?:_|$)"
    rf"|(?:^|_){_ACCOUNTS}_?(?:pass|pwd?)(?:_?[0-9]+)?$"
    r"|secrets?(?:_?(?:key|token|access|value).*|_?[0-9]+)?$"
    r"|(?:auth|access|refresh|bearer|session|api|hf|github|gitlab|slack|bot)_?tokens?(?:_|$)"
    r"|(?:^|_)(?:pwd|bearer)(?:_|$)"
    r"|(?:auth|login|session|remember_?me)_?cookies?$"
    r"|(?:^|_)(?:git(?:hub|lab)?|g[hl]|azure|devops|ado|ext|docker|jira|personal|access|user)"
    r"_?pats?$",
    re.IGNORECASE,
)
_MAYBE = re.compile(
    r"secret|(?:^|_)(?:tokens?|keys?)(?:_|$)"
    r"|(?:^|_)(?:pass|pw|pat|jwt|sas|cookies?|salt|o?auth2?|webhooks?|conn(?:ection)?_?str(?:ing)?"
    r"|dsn|seed|psk|t?otp|[cx]srf|gl_?pat|tok)(?:_(?!id$)|$)"
    r"|(?:^|_)(?:sk|pw[0-9]+)$|(?:recovery|backup|access)_?codes?$",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"_(?:header|region|column|field|name|length|count|type|policy|format|prefix|strength|score"
    r"|rules?|hint|reset|changed|expir\w*|age|date|status|enabled|method|mode|level|required|class|env|var)$",
    re.IGNORECASE,
)
"""Endings of names for facts about a secret."""
_ORDINARY = re.compile(
    r"(?:[a-z0-9]+_)*?(?:primary|foreign|sort|partition|index|group|join|merge|cache|s3)_?keys?"
    r"(?![a-z])",
    re.IGNORECASE,
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_PART = r"(?:[A-Z]?[a-z]+(?:[A-Z][a-z]+)*|[A-Z]+)?[0-9]*"
_IDENTIFIER = re.compile(rf"(?=.*[A-Za-z]{{3}}){_PART}(?:[_./=:-]{_PART})*")
SHORTEST = 8
"""Characters; a shorter value would be found in ordinary words."""
_USUAL = 100  # characters of names that are remembered


class Secrecy(IntEnum):
    """The degree to which a name announces a secret."""

    NONE = 0
    MAYBE = 1
    """A key or token: of a service, but also of a table or a text."""
    SURE = 2

    def hides(self, text: str) -> bool:
        """Return whether a string with such a name is a secret."""
        if self is Secrecy.MAYBE:
            return len(text) >= SHORTEST and has_mixed_characters(text) and not is_identifier(text)
        return self is Secrecy.SURE and bool(text)


def secrecy(name: str) -> Secrecy:
    """Return how surely a variable, key or column of that name holds a secret."""
    return _known_secrecy(name) if len(name) <= _USUAL else _secrecy(name)


def _secrecy(name: str) -> Secrecy:
    name = _CAMEL.sub("_", name).replace("-", "_")
    if is_ordinary_key(name):
        return Secrecy.NONE
    if _SURE.search(name):
        return Secrecy.MAYBE if _ABOUT.search(name) else Secrecy.SURE
    return Secrecy.MAYBE if _MAYBE.search(name) else Secrecy.NONE


# The same names are looked at again before each run.
_known_secrecy = lru_cache(maxsize=16_384)(_secrecy)


def is_secret_name(name: str) -> bool:
    """Return whether a variable, key or column of that name may hold a secret."""
    return secrecy(name) > Secrecy.NONE


def is_ordinary_key(text: str) -> bool:
    """Return whether the text starts with a table key's name: `PRIMARY_KEY`, `orders_sort_key`."""
    return bool(_ORDINARY.match(text))


def is_identifier(text: str) -> bool:
    """Return whether the text consists of words and numbers: `order_date_2024`, `us-east-1`."""
    return bool(_IDENTIFIER.fullmatch(text))


def has_mixed_characters(text: str) -> bool:
    """Return whether it has a digit and a letter."""
    return any(map(str.isdigit, text)) and any(map(str.isalpha, text))


def mask_arguments(arguments: JsonDict) -> JsonDict:
    """Return the arguments with `••••••` for strings with secret names."""
    return {name: _mask_value(secrecy(str(name)), value) for name, value in arguments.items()}


def _mask_value(secret: Secrecy, value: object) -> object:
    if isinstance(value, dict):
        return mask_arguments(value)
    if isinstance(value, list):
        return [_mask_value(secret, each) for each in value]
    return MASK if isinstance(value, str) and secret.hides(value) else value


_ORDINARY_TEXT = re.compile(
    r"[+-]?[\d.,_]+(?:e[+-]?\d+)?|true|false|enabled|disabled", re.IGNORECASE
)
# Names of secrets here, but of ordinary columns in tables.
_SESSION = re.compile(r"(?:^|_)session(?:_?id)?$|snmp_?community$", re.IGNORECASE)
_URL = re.compile(r"[a-z][a-z0-9+.-]*://[^@]*", re.IGNORECASE)


def known_secrets(environ: Mapping[str, str]) -> frozenset[str]:
    """Return the values of variables called key, token, password and the like.

    Addresses of webhooks count if a part looks random: whoever has one may write there. Left out
    are values of less than 8 characters, numbers, switches, existing files and folders, addresses
    without credentials, values that repeat the variable's name (`POSTGRES_PASSWORD=postgres`), and
    words if the name does not clearly say that they are secret (`JUPYTER_TOKEN=datascience`): they
    would be hidden everywhere.
    """
    # Names first: reading all values as well takes twice as long.
    secrets = set()
    for name in environ:
        if secret := _known_secrecy(name) or (_SESSION.search(name) and Secrecy.MAYBE):
            value = environ.get(name, "").strip()
            if len(value) >= SHORTEST and _is_secret(name, value, secret):
                secrets.add(value)
    return frozenset(secrets)


def url_passwords(url: str) -> set[str]:
    """Return the password in a URL, as it is written and as it is meant."""
    found = re.findall(r"://[^:/@]*:([^/]*(?:/[^?]*)?)@|[?&](?:ssl)?password=([^&]*)", url)
    return {each for pair in found for word in pair if word for each in (word, unquote(word))}


def _is_secret(name: str, value: str, secret: Secrecy) -> bool:
    if secret is Secrecy.MAYBE and (is_identifier(value) or value[0] in "/~"):
        return False
    if "webhook" in name.lower() and _URL.fullmatch(value):
        return any(
            len(part) >= 2 * SHORTEST and not is_identifier(part) for part in value.split("/")
        )
    is_ordinary = (
        _ORDINARY_TEXT.fullmatch(value) or _URL.fullmatch(value) or value.lower() in name.lower()
    )
    return not is_ordinary and not os.path.exists(value)  # noqa: PTH110 - Path.exists raises for long ones


Check = Callable[[str], bool]

# Each is a whole secret; none begins in the middle of a word.
TOKENS = (
    # Models
    r"sk-(?:proj|svcacct|admin|service|ant|or|lf|litellm)-[\w-]{16,}",  # OpenAI, Anthropic, …
    r"sk-(?:[A-Za-z]{1,12}-)?[A-Za-z0-9]{16,}[\w-]*",  # those who came after
    r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{30,}",  # Hugging Face
    r"(?:pcsk|tgp_v1)_[\w-]{20,}",  # Pinecone, Together
    r"(?:xai|pplx|nvapi|csk)-[\w-]{20,}",  # xAI, Perplexity, NVIDIA, Cerebras
    r"tvly-[\w-]{16,}|jina_[\w-]{40,}|lsv2_(?:pt|sk)_[0-9a-f]{32}\w*|wandb_v1_[\w-]{20,}",
    # Clouds
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b|ABSK[A-Za-z0-9+/]{60,}={0,2}",  # AWS
    r"amzn\.mws\.[0-9a-f-]{36}|bedrock-api-key-[\w+/=-]{30,}",
    r"AIza[\w-]{30,}|GOCSPX-[\w-]{20,}|ya29\.[\w.-]{20,}|1//0[\w-]{30,}",  # Google
    r"[\w~.]{3}[0-9]Q~[\w~.-]{31,34}|[A-Za-z0-9]{40,60}JQQJ9[A-Za-z0-9]{20,}",  # Azure
    r"do[opr]_v1_[0-9a-f]{64}|HRKU-[\w-]{30,}|nfp_[A-Za-z0-9]{36,}|fo1_[\w-]{40,}",
    r"hv[sbr]\.[\w-]{24,}|[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}|pul-[0-9a-f]{40}",
    r"dapi[0-9a-f]{32}(?:-[0-9])?|pscale_\w{2,5}_[\w.-]{32,}|sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,}",
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}|tskey-[a-z]+-[\w-]{16,}",
    r"glsa_\w{32,}|glc_eyJ[\w+/=-]{30,}",  # Grafana
    r"NRAK-[A-Z0-9]{27}|sntry[su]_[\w+/=-]{40,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}",
    # Code and packages
    r"gh[oprsu]_\w{20,}|github_pat_\w{20,}",
    r"gl(?:pat|ptt|rt|cbt|dt|ft|imt|agent|oas|soat|ffct|rtr)-[\w.-]{16,}",  # GitLab
    r"npm_[A-Za-z0-9]{30,}|pypi-[\w-]{32,}|rubygems_[0-9a-f]{48}|cio[A-Za-z0-9]{32}\b",
    r"dckr_(?:pat|oat)_[\w-]{20,}",
    # Messages, payments, offices
    r"xox[a-z](?:\.xox[a-z])?-[\w-]{10,}|xapp-[0-9]-[\w-]{16,}",  # Slack
    r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"SG\.[\w-]{16,}\.[\w-]{16,}|SK[0-9a-f]{32}\b",  # SendGrid, Twilio
    r"[0-9a-f]{32}-us[0-9]{1,2}\b",  # Mailchimp
    r"[prs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{24,}={0,2}",  # Stripe
    r"shp(?:at|ca|pa|ss|ua)_[0-9a-fA-F]{32}|sq0[a-z]{3}-[\w-]{22,}",  # Shopify, Square
    r"EAAA[\w-]{60}\b",  # Square
    r"AT[AC]TT3[\w=-]{40,}|lin_(?:api|oauth)_\w{32,}|(?:secret|ntn)_[A-Za-z0-9]{40,}",
    r"fig[dour]_[\w-]{30,}|pat[A-Za-z0-9]{14}\.[0-9a-f]{64}|sl\.[\w.-]{100,}",
    r"EAA[A-Za-z0-9]{80,}|ops_eyJ[\w+/=-]{40,}|AGE-SECRET-KEY-1[0-9A-Z]{58}",
    r"eyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*){0,3}",  # JSON web tokens
)

_NAME = (
    r"(?:pass(?:word|wd|phrase)|(?:client|app|shared)?[_-]?secret"
    r"|(?:api|access|account|private|auth|secret|signing|encryption|subscription"
    r"|shared[_-]?access)[_-]?key"
    r"|(?:auth|access|refresh|bearer|session|api|private|deploy|job)[_-]?token"
    r"|shared[_-]?access[_-]?signature)"
)
_LETTERS = r"\x{a1}-\x{dff}"  # of scripts that put blanks between words
_PLAIN = rf"[!#-%*-:=?-\[\]^_a-z|~{_LETTERS}]"  # no quotes, brackets, backslashes, ; or &
_JOINED = rf"(?:&[!#-%*-:?-\[\]^_a-z|~{_LETTERS}]+)*"  # but not the next field of a form
_END = r"(?:[\s;&\"'`\x00]|$)"  # NUL surrounds encoded text
_QUOTE = r"\\*[\"']"
_IS = rf"(?:{_QUOTE})?\]?\s{{0,3}}(?:=>|[:=])\s{{0,3}}"
_QUOTED = rf"[!#-&(-\[\]-~{_LETTERS}]"
_VARIABLE = r"[A-Z0-9_]+_(?:KEY|TOKEN|PASS|PW|PAT|SK)"
_DATABASE = r"(?:postgres(?:ql)?|mysql|mariadb|mongodb|rediss?|amqps?|mssql|oracle)(?:\+\w+)?"
_HEADER = r"(?i)\bauthorization[\\\"'\]]{0,4} ?[:=] ?[\\\"']{0,4}"
_BASE64 = r"[A-Za-z0-9+/=]"
_BETWEEN = r"[\s\"',|>]"  # what lines of a key are separated by, also in quoted mails and in JSON

_BEGIN = rf"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----{_BETWEEN}*"
_HEADERS = rf"(?:{_BETWEEN}*(?:Proc-Type|DEK-Info|Version|Comment|Charset): [^\n]*)*"


_PLACEHOLDER = re.compile(
    r"(?:your|[$%{<\[(*]).*|(?:my|the)?[-_]?(?:api)?[-_]?(?:pass|passw(?:or)?d|pwd|secret|key|token)"
    r"|none|null|true|false|redacted|(.)\1*",
    re.IGNORECASE,
)
_CODE = re.compile(r"[A-Za-z_][\w.]*(?P<more>[\[,:].*)?", re.ASCII)
_CALL = re.compile(r"[A-Za-z_][\w.]*[(\[](?:[^)\]]*|.*[)\]](?:\.\w+)*,?)", re.ASCII)
_FOLDER = re.compile(r"[.~]{0,2}/|[A-Za-z]:")
_ADDRESS = re.compile(r"//|[0-9]{1,5}/")
_ABOUT_SECRETS = re.compile(r"pass|pwd|secret|key|token|auth", re.IGNORECASE)
_TWO_WORDS = 16
"""Letters that a single word seldom has."""
_MODEL = re.compile(r"[a-z]+/[a-z0-9./-]+")


def _is_real_value(value: str) -> bool:
    """Return whether it is more than a placeholder."""
    return not _PLACEHOLDER.fullmatch(value)


def _is_mixed(value: str) -> bool:
    """Return whether it has a digit and a letter, unlike most words and models' names."""
    return has_mixed_characters(value) and _is_real_value(value) and not _MODEL.fullmatch(value)


def _is_literal(value: str) -> bool:
    """Return whether it is a value, not code that gets one from elsewhere."""
    code = _CODE.fullmatch(value)
    elsewhere = code and (code["more"] or "." in value or _ABOUT_SECRETS.search(value))
    return _is_mixed(value) and not elsewhere


def _looks_random(value: str) -> bool:
    """Return whether it has no words either: for places where secrets are rare."""
    return _is_literal(value) and not is_identifier(value)


def _is_unusual(value: str) -> bool:
    return _is_mixed(value) and not is_identifier(value)


def _looks_generated(value: str) -> bool:
    """Return whether it has no words, which may begin as a token does."""
    return not is_identifier(value)


def _is_password(value: str) -> bool:
    """Return whether it is neither the rest of an address nor a port with a path."""
    return _is_real_value(value) and not _ADDRESS.match(value)


def _is_not_folder(value: str) -> bool:
    return _is_literal(value) and not _FOLDER.match(value)


def _is_not_call(value: str) -> bool:
    """Return whether it is a value, not a call, not even up to its first quote."""
    return _is_real_value(value) and not _CALL.fullmatch(value)


def _looks_chosen(value: str) -> bool:
    """Return whether users choose such passwords: letters alone, if no word looks like that."""
    joined = re.search("[a-z][A-Z]", value) or (value.isalpha() and len(value) >= _TWO_WORDS)
    return _is_real_value(value) and (
        has_mixed_characters(value) or bool(joined and not _ABOUT_SECRETS.search(value))
    )


def _is_long(value: str) -> bool:
    return _is_real_value(value) and (len(value) >= 20 or _is_literal(value))


def _is_pair(value: str) -> bool:
    """Return whether it is Base64 of a name and a password."""
    try:
        return ":" in base64.b64decode(value + "=" * (-len(value) % 4)).decode()
    except ValueError:
        return False


# Only the group is the secret.
PLACES: tuple[tuple[str, Check], ...] = (
    (rf"{_BEGIN}({_HEADERS}(?:{_BETWEEN}*{_BASE64}{{16,}})*(?:{_BETWEEN}*{_BASE64}{{1,15}})?)"
     rf"{_BETWEEN}*(?:-----END|$)", bool),
    (rf"{_BEGIN}({_HEADERS}(?:{_BETWEEN}*{_BASE64}{{16,}})+)", bool),  # cut off
    (rf"://[\w.%+~!*-]*:([!#-&(-.0-;=?-\[\]^_a-z|~{_LETTERS}]+)@", _is_real_value),
    (rf"(?i)\b{_DATABASE}://[\w.%+~!*-]*:([!#-&(-;=?-\[\]^_a-z|~{_LETTERS}]+)@", _is_password),
    # Tokens that may also begin as a word does
    (r"(?:\b|_)(sk_(?:[a-z]{1,8}_)?[A-Za-z0-9]{24,})", _looks_generated),  # ElevenLabs, Cartesia
    (r"(?:\b|_)((?:gsk|fw|r8)_[A-Za-z0-9]{20,})", _looks_generated),  # Groq, Fireworks, Replicate
    (r"(?:\b|_)([0-9]{8,10}:AA[\w-]{32,})", _looks_generated),  # Telegram
    (r"(?:(?i:mailgun)[^\n]{0,100}|\bapi:)\b(key-[0-9a-f]{32})\b", bool),
    (r"(?i)\bbearer\s+([\w.~+/-]{16,}=*)", _looks_random),
    (rf"{_HEADER}bearer\s+([\w.~+/-]{{8,}}=*)", _is_long),
    (rf"{_HEADER}(?:(?:basic|token|apikey|digest)\s+)?([\w.~+/-]{{8,}}=*)", _is_literal),
    (r"(?i)\bbasic\s+([A-Za-z0-9+/]{8,}={0,2})", _is_pair),
    (r"(?:hooks\.slack\.com/\w+|discord(?:app)?\.com/api/webhooks)/([\w/+-]{20,})", _is_real_value),
    (r"(?i)[?&](?:key|(?:x-(?:amz|goog)-)?(?:signature|security-token)|sig|token|auth)="
     r"([\w%.~+/-]{16,})", _looks_random),
    (r"(?i)\bcookie[^\n]{0,300}?\b[\w.-]*(?:sess|sid|auth|token|csrf|jwt|login|remember)[\w.-]*="
     r"([\w%.~+/-]{16,}=*)", _looks_random),
    # Connection strings; shell variables; settings; quoted values; options of a command
    (rf"(?i)(?:[;&?]\s*|\b(?:host|user|dbname)=[^\s,()]+ +(?:\w+=[^\s,()]+ +){{0,8}})"
     rf"(?:{_NAME}|pwd)=({_PLAIN}{{3,}}){_END}", _is_real_value),
    (rf"(?m)^\s*(?:export\s+)?[A-Z0-9_]*(?:SECRET|PASSWORD|PASSWD|PASSPHRASE)="
     rf"((?:{_PLAIN}|[()\[\]{{}}]){{4,}}{_JOINED}){_END}", _is_not_call),
    (rf"\b[A-Z0-9_]*(?:KEY|TOKEN|PAT)\s?=\s?({_PLAIN}{{16,}}){_END}", _looks_random),
    (rf"(?i){_NAME}(?:\s?=\s?|:[ \t]*)({_PLAIN}{{6,}}{_JOINED}){_END}", _is_literal),
    (rf"(?i)(?:\b|_)pwd(?:\s?=\s?|:[ \t]*)({_PLAIN}{{6,}}{_JOINED}){_END}", _is_not_folder),
    (rf"(?i:{_NAME}){_IS}{_QUOTE}({_QUOTED}{{6,}}){_QUOTE}", _is_mixed),
    (rf"{_QUOTE}(?i:pass(?:word|wd|phrase)){_IS}{_QUOTE}({_QUOTED}{{8,}}){_QUOTE}", _looks_chosen),
    (rf"\b{_VARIABLE}{_IS}{_QUOTE}({_QUOTED}{{6,}}){_QUOTE}", _is_unusual),
    (rf"(?m)^\s*(?:export\s+)?[A-Z0-9_]+_(?:PASS|PW|SK)=({_PLAIN}{{8,}}{_JOINED}){_END}",
     _looks_random),
    (rf"(?i:{_NAME}):\s?[\w.| \[\]]+=\s?{_QUOTE}({_QUOTED}{{6,}}){_QUOTE}", _is_mixed),
    (rf"(?i)<{_NAME}>([^<>\s]{{6,}})</", _is_mixed),
    (rf"(?i)\b(?:key|name)=\"[\w.-]*{_NAME}\"\s+value=\"({_QUOTED}{{6,}})\"", _is_mixed),
    (rf"(?i){_NAME}:\s?`([^`\s]{{6,}})`", _is_literal),
    (r"\b_?auth(?:\"\s?:\s?\"|\s?=\s?)([A-Za-z0-9+/]{8,}={0,2})", _is_pair),  # Docker, npm
    (r"\"username\"[^\n{}]+\"key\"\s?:\s?\"([0-9a-f]{32})\"", bool),  # Kaggle
    (rf"\bsshpass\s+-p\s?({_PLAIN}{{4,}}){_END}", _is_real_value),
    (rf"\bpwd{_IS}{_QUOTE}({_QUOTED}{{6,}}){_QUOTE}", _is_not_folder),
    (rf"\btoken{_IS}(?:{_QUOTE})?([\w.~+/-]{{16,}}=*){_END}", _looks_random),
    (rf"(?i)--(?:{_NAME}|token)[ =]({_PLAIN}{{6,}}){_END}", _is_literal),
    (rf"(?i)\bcurl\s(?:[^\n]{{0,200}}\s)?(?:-u|--user)[ =][\"']?[^\s:\"']+:({_PLAIN}+)",
     _is_password),
    (rf"\bmysql(?:dump|admin)?\s(?:[^\n|;&]{{0,200}}\s)?-p({_PLAIN}{{4,}}){_END}", _is_mixed),
    (rf"\blogin\s+\S+\s+password\s+({_PLAIN}+)", _is_mixed),
)  # fmt: skip
