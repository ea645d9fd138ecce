"""Secrets that nobody has, of forty kinds, and the ways in which they come along."""

import base64
import random
import string
from collections.abc import Callable
from urllib.parse import quote_plus

_rng = random.Random(22)

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
UPPER = string.ascii_uppercase + string.digits


def of(length: int, alphabet: str = LETTERS) -> str:
    return "".join(_rng.choices(alphabet, k=length))


def _pem(kind: str) -> tuple[str, str]:
    body = "\n".join(of(64) for _ in range(12)) + "\n" + of(24) + "=="
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----", body


def _jwt() -> str:
    parts = base64.urlsafe_b64encode(b'{"alg":"HS256"}'), base64.urlsafe_b64encode(b'{"sub":"me"}')
    return b".".join(parts).decode().replace("=", "") + "." + of(43)


TOKENS: dict[str, str] = {
    "OpenAI": "sk-" + of(48),
    "OpenAI project": "sk-proj-" + of(20) + "_" + of(20) + "-" + of(80),
    "Anthropic": "sk-ant-api03-" + of(60) + "-" + of(32) + "AA",
    "OpenRouter": "sk-or-v1-" + of(64, HEX),
    "Hugging Face": "hf_" + of(34),
    "Groq": "gsk_" + of(52),
    "Replicate": "r8_" + of(37),
    "xAI": "xai-" + of(80),
    "Perplexity": "pplx-" + of(48),
    "NVIDIA": "nvapi-" + of(64),
    "Pinecone": "pcsk_" + of(60),
    "LangSmith": "lsv2_pt_" + of(32, HEX) + "_" + of(10, HEX),
    "AWS": "AKIA" + of(16, UPPER),
    "Google": "AIza" + of(35),
    "Google OAuth": "ya29." + of(60),
    "Google client": "GOCSPX-" + of(28),
    "Azure AD": of(3) + "8Q~" + of(34),
    "DigitalOcean": "dop_v1_" + of(64, HEX),
    "Vault": "hvs." + of(90),
    "Databricks": "dapi" + of(32, HEX),
    "Doppler": "dp.pt." + of(43),
    "Grafana": "glsa_" + of(32) + "_" + of(8, HEX),
    "GitHub": "ghp_" + of(36),
    "GitHub fine-grained": "github_pat_" + of(22) + "_" + of(59),
    "GitLab": "glpat-" + of(20),
    "Grafana Cloud": "glc_eyJ" + of(60),
    "Square": "EAAA" + of(60),
    "npm": "npm_" + of(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + of(100),
    "Docker": "dckr_pat_" + of(27),
    "Slack": "xoxb-" + of(12, string.digits) + "-" + of(24),
    "Discord": "M" + of(25) + "." + of(6) + "." + of(38),
    "Fireworks": "fw_" + of(24),
    "ElevenLabs": "sk_" + of(48, HEX),
    "Telegram": of(9, "123456789") + ":AA" + of(33),
    "SendGrid": "SG." + of(22) + "." + of(43),
    "Twilio": "SK" + of(32, HEX),
    "Mailchimp": of(32, HEX) + "-us12",
    "Stripe": "sk_live_" + of(24),
    "Shopify": "shpat_" + of(32, HEX),
    "Atlassian": "ATATT3" + of(180),
    "Linear": "lin_api_" + of(40),
    "JSON web token": _jwt(),
    "age": "AGE-SECRET-KEY-1" + of(58, UPPER),
}
"""Recognised wherever they stand."""

_RSA, _OPENSSH, _PGP = map(
    _pem, ("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PGP PRIVATE KEY BLOCK")
)
_BASIC = base64.b64encode(b"ada:lovelace-1815").decode()

PLACED: dict[str, tuple[str, str]] = {
    "RSA key": _RSA,
    "OpenSSH key": _OPENSSH,
    "PGP key": _PGP,
    "database URL": ("postgresql://ada:l0vel&ce!@db.example.org:5432/x", "l0vel&ce!"),
    "URL with an @ in its password": ("amqp://ada:l0v@lace@mq.example.org", "l0v@lace"),
    "bearer": (f"Authorization: Bearer {(b := of(32))}", b),
    "basic": (f"authorization: basic {_BASIC}", _BASIC),
    "token header": (f'"Authorization": "token {(t := of(40, HEX))}"', t),
    "ODBC": ("Server=tcp:x;Uid=ada;Pwd=lovelace;Encrypt=yes", "lovelace"),
    "Azure storage": (f"AccountName=a;AccountKey={(k := of(86))}==;Suffix=x", k),
    "Azure SAS": (f"https://a.example.org/c?sv=2022&sig={(s := of(43) + '%3D')}", s),
    "libpq": ("host=db user=ada password=lovelace dbname=x", "lovelace"),
    "shell": ("export DB_PASSWORD=lovelace", "lovelace"),
    ".env": (f"AWS_SECRET_ACCESS_KEY={(w := of(40))}", w),
    "AWS credentials file": (f"aws_secret_access_key = {(v := of(40))}", v),
    "JSON": ('{"user": "ada", "password": "l0velace"}', "l0velace"),
    "JSON in JSON": ('"{\\"api_key\\": \\"l0velace\\"}"', "l0velace"),
    "Python": ("connect(user='ada', password='l0velace')", "l0velace"),
    "YAML": ("client_secret: l0velace\n", "l0velace"),
    "option": ("tool --api-key l0velace run", "l0velace"),
    "curl": ("curl -s -u ada:lovelace https://example.org", "lovelace"),
    "netrc": ("machine x login ada password l0velace", "l0velace"),
    "password with &": ("login(user=ada, password=Tr0ub4dor&3x", "Tr0ub4dor&3x"),
    "password in a form": ("https://example.org/?password=l0velace&user=ada", "l0velace"),
    "password with brackets": ("DB_PASSWORD=Tr0ub(4)dor3x", "Tr0ub(4)dor3x"),
    "pwd": ("pwd=geheim123", "geheim123"),
    "quoted pwd": ("{'pwd': 'geheim123'}", "geheim123"),
    "quoted token": (f"{{'token': '{(q := of(24, HEX))}'}}", q),
    "token": (f"token: {(y := of(24, HEX))}", y),
    "some key": (f"DB_KEY = '{(z := of(24))}'", z),
    "database URL with a /": ("postgresql://ada:l0ve/l4ce@db.example.org/x", "l0ve/l4ce"),
    "mysql": ("mysql -u root -phunter22", "hunter22"),
    "Mailgun": (f"curl -s api:key-{(m := of(32, HEX))}", f"key-{m}"),
    "JSON of letters": ('{"user": "ada", "password": "fourteenLetters"}', "fourteenLetters"),
    "JSON of small letters": ('{"password":"correcthorsebattery"}', "correcthorsebattery"),
    "cookie": (f"Cookie: theme=dark; sessionid={(c := of(32, HEX))}; lang=en", c),
    "set-cookie": (f"'Set-Cookie': 'csrftoken={(r := of(40))}; Path=/'", r),
    "signed address": (f"https://b.example.org/x?a=1&X-Amz-Signature={(g := of(64, HEX))}&z=2", g),
    "session of a signed address": (f"?X-Amz-Security-Token={(j := of(90))}&X-Amz-Date=1", j),
    "Slack webhook": (
        f"https://hooks.slack.com/services/{(h := f'T{of(8)}/B{of(8)}/{of(24)}')}",
        h,
    ),
    "variable of a secret key": (f'export STRIPE_SK="{(sk := of(24))}"', sk),
    "variable of a password": ("SMTP_PASS=l0vel4ce!9", "l0vel4ce!9"),
    "quoted variable of a password": ("os.environ['DB_PASS'] = 'l0vel4ce!$a'", "l0vel4ce!$a"),
    "header of GitLab": (f"Private-Token: {(pt := of(20))}", pt),
    "header of Azure": (f"Ocp-Apim-Subscription-Key: {(az := of(32, HEX))}", az),
    "annotated": (f'api_key: str | None = "{(an := of(24))}"', an),
    "XML": ("<Password>l0vel4ce9</Password>", "l0vel4ce9"),
    "XML setting": (f'<add key="ApiKey" value="{(xs := of(30))}"/>', xs),
    "Markdown": ("Password: `l0vel4ce9`", "l0vel4ce9"),
    "Docker's file": (f'{{"auths": {{"r": {{"auth": "{_BASIC}"}}}}}}', _BASIC),
    "npm's file": (f"_auth={_BASIC}", _BASIC),
    "Kaggle's file": (f'{{"username":"ada","key":"{(kg := of(32, HEX))}"}}', kg),
    "sshpass": ("sshpass -p l0vel4ce ssh x", "l0vel4ce"),
}
"""Recognised by what stands around them: a text, and the secret in it."""

ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64url": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "hex": lambda text: text.encode().hex(),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "form": quote_plus,
}

ORDINARY = (
    "The basic configuration of a password field: choose a strong one, and keep the key secret.",
    "Bearer authentication-and-authorization is described below; a bearer token is a token.",
    "risk-adjusted-returns-2024, task-list, desk-lamp-with-3-bulbs, sk-learn, sk- and ghp_",
    "commit 9fceb02d0ae598e95dc970b74767f19372d61af8 (tag: v1.2.3)",
    "id: 6ba7b810-9dad-11d1-80b4-00c04fd430c8, etag: d41d8cd98f00b204e9800998ecf8427e",
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "https://example.org:8080/a:b@c?page=2&sort_key=name_1&token=3#key=4",
    "Contact ada@example.org or git@github.com:ada/engine.git, ssh://git@example.org:22/x",
    "postgres://user:password@localhost/db and postgres://user:${PASSWORD}@localhost/db",
    "api_key = os.environ['OPENAI_API_KEY']\npassword=password,\ntoken = tokens[2]",
    "client = Client(api_key=settings.api_key_2, password=get_password(1), max_tokens=100)",
    'headers["Authorization"] = f"Bearer {api_key}"; password: str | None = None',
    "password: SecretStr = Field(...)\nprivate_key: Ed25519PrivateKey\nAPI_KEY = None",
    "sorted(rows, key=lambda row: row[0]); primary_key=True; KEY = 'column_1'",
    '{"OPENAI_API_KEY": "openai/gpt-5.2", "password": "your-password-1", "token": "word1"}',
    "species,island,mass\nAdelie,Torgersen,3750.0\nGentoo,Biscoe,5000.0",
    "-----BEGIN CERTIFICATE-----\nMIIDdzCCAl+gAwIBAgIEAgAAuTANBgkqhkiG9w0BAQUFADBaMQswCQYDVQQG\n",
    "The line -----BEGIN PRIVATE KEY----- begins a key. Never send one.",
    "/usr/lib/python3.11/site-packages/very_long_package_name/__init__.py line 120",
    "密码是秘密的。 пароль: ключ 🎉 كلمة السر",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "C:\\new\\token\\x20 and \\u0041 and 100%25 and %s %(name)s",
    "PRIMARY_KEY = 'customer_id_2'; SORT_KEY = 'order_date_2024_01'; GROUP_KEY=\"region1\"",
    "FOREIGN_KEY = 'orders.customer_id1'\nPARTITION_KEY = \"year=2024/month=01\"",
    "INDEX_KEY = column_one_2024_quarter1 ",
    "S3_KEY = 'data/2024/part-0a1b2c3d4e5f.parquet'; DB_JOIN_KEY='9f3a0b1c2d4e5f60'",
    "https://example.org/data?key=population_by_country_2020&token=estimated_by_region_2021",
    "s3://bucket/key-d41d8cd98f00b204e9800998ecf8427e.parquet",
    "key-d41d8cd98f00b204e9800998ecf8427e",
    "gsk_glaxosmithkline_daily_prices_2020_2024, gsk_glaxosmithklinedailyprices2024",
    "fw_forward_pass_layer_12_output_v2, r8_resolution_eight_bit_output",
    "sk_estimatorsklearnensembleforest1",
    "Bearer bonds_2024_listing_issue_2",
    "curl -u https://x/file1:8080",
    "0123456789:AA" + "ACGT" * 10,
    "PWD=/home/ada1/engine\npwd: ~/engine2\n{'pwd': '/home/ada1'}",
    "'token': 'internationalization2', token: str, token = tokenizer.decode(ids[0])",
    "redis://localhost:6379/0@x mongodb://db:27017/x@1",
    "mysql -u root -P3306 -p sales2; mysqldump -h db x | ssh -p2222a host",
    "PASSWORD=getpass.getpass('db1')\nPASSWORD=settings[0].db1\nDB_PASSWORD=ask(1),",
    '{"password": "required", "Password": "authentication", "password": "confirmPassword"}',
    '{"type": "object", "properties": {"password": {"type": "string", "minLength": 8}}}',
    "The cookie: a biscuit with session=breakfast_with_coffee_and_tea; cookies: 12, cookie jar",
    "col,password_strength,auth_method,salt\n1,very_strong,oauth2,NaCl\n2,weak,password,KBr",
    "df['token_count'] = df.tokens.str.len(); seed = 42; low_pass = butter(4, 0.1); jwt.decode(x)",
    "?signature=def_fit_transform(self)&sig=significant_at_five_percent_level",
    "LOW_PASS=butterworth_filter_4; BAND_PASS = 'order4'; <password>required</password>",
    '{"username": "ada", "key": "region_1"}; "auth": "oauth2", password: `str`, n_sk = 3',
    "0x7f3a2b1c9d8e 1700000000123456789 3.141592653589793 1e-10",
)
"""Not a secret in it."""
