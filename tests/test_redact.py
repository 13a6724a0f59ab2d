"""Redaction: the form of what stands in a secret's place, its key, and which names are secrets or knobs."""

from __future__ import annotations

import os
import re
import stat
import threading
from pathlib import Path

import pytest

from envsnap.capture import capture
from envsnap.keys import is_path
from envsnap.redact import MAX_DEPTH, Redactor, comparable, redacted_parts
from envsnap.redaction_key import KEY_FILE
from envsnap.secret_names import Secrecy, secrecy_of
from envsnap.snapshot import dumps
from tests.fakes import FakeHost, missing

KNOBS = """
SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK SGLANG_INIT_NEW_TOKEN_RATIO SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR
SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION SGLANG_MAX_NEW_TOKENS_LIMIT
SGLANG_PREFILL_DELAYER_TOKEN_USAGE_LOW_WATERMARK SGLANG_SYNC_TOKEN_IDS_ACROSS_TP SGLANG_MLA_DEDUP_CHUNK_TOKENS
SGLANG_MORI_MOE_MAX_INPUT_TOKENS SGLANG_USE_AITER_FP8_PER_TOKEN SGLANG_FLASHINFER_MEGAMOE_MAX_TOKENS_PER_RANK
SGLANG_FLASHINFER_NVFP4_PER_TOKEN_ACTIVATION SGLANG_TRTLLM_MOE_PDL_MAX_TOKENS SGLANG_MOE_DEFERRED_FINALIZE_MAX_TOKENS
SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK SGLANG_MM_AVOID_RETOKENIZE SGLANG_MAX_THINK_TOKENS
SGLANG_PATCH_TOKENIZER SGLANG_BATCH_TOKENIZER_OUTPUTS SGLANG_MINIMAX_VIT_TOKEN_BLOCK SGLANG_SIMULATE_ACC_TOKEN_MODE
SGLANG_KV_CANARY_PERTURB_NEXT_TOKEN_SWAP_PROB SGLANG_KV_CANARY_ENABLE_TOKEN_ORACLE SGLANG_TEST_STUCK_TOKENIZER
SGLANG_LOG_DECODE_GRAPH_KEY SGLANG_DIAG_BYPASS_HEALTH_GENERATE SGLANG_PREFILL_DELAYER_MAX_DELAY_PASSES
VLLM_MAX_TOKENS_PER_EXPERT_FUSED_MOE MAX_TOKENS TOKENIZERS_PARALLELISM TOKENIZER_PATH tokenizer_path max_total_tokens
speculative_num_draft_tokens speculative_token_map num_reserved_decode_tokens chunked_prefill_size ssl_keyfile
NCCL_IB_PKEY NCCL_SOCKET_IFNAME PYTHON_KEYRING_BACKEND KEYRING SSH_AUTH_SOCK XAUTHORITY AWS_REGION
HF_TOKEN_PATH PASSWORD_STORE_DIR GPG_KEY CUDA_CACHE_PATH SECRET_SERVICE_COUNT COOKIECUTTER_CONFIG AUTHOR
"""

SECRETS = """
HF_TOKEN HUGGING_FACE_HUB_TOKEN GITHUB_TOKEN GH_TOKEN MY_TOKEN JUPYTER_TOKEN WANDB_API_KEY OPENAI_API_KEY EXA_API_KEY
VLLM_API_KEY AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_CONTAINER_AUTHORIZATION_TOKEN PGPASSWORD
MYSQL_PWD DB_PASS POSTGRES_PASSWORD SSHPASS DJANGO_SECRET_KEY SECRET_KEY_BASE CLIENT_SECRET API_KEY_PROD HF_TOKEN_2
api_key admin_api_key ssl_keyfile_password apiKey clientSecret Authorization X-Api-Key _authToken AccountKey
SharedAccessKey private_key SGLANG_S3_SECRET_ACCESS_KEY SGLANG_PRECISION_HF_TOKEN Set-Cookie access_token
GOOGLE_CREDENTIALS --admin-api-key
"""


@pytest.mark.parametrize("name", KNOBS.split())
@pytest.mark.parametrize("value", ["8192", "0.7", "true", "fa3", "prefill,decode", "/opt/models/tokenizer"])
def test_a_knob_stays_clear(name: str, value: str) -> None:
    assert Redactor().clean_value(f"env[{name}]", value) == value
    assert Redactor().clean({name: value}) == {name: value}
    assert Redactor().clean([f"--{name}", value, f"{name}={value}"]) == [f"--{name}", value, f"{name}={value}"]


@pytest.mark.parametrize("name", SECRETS.split())
def test_a_secret_is_hidden_by_its_name(name: str) -> None:
    hidden = Redactor().clean_value(f"worker[scheduler_TP0].env[{name}]", "correct horse")
    assert redacted_parts(str(hidden))


@pytest.mark.parametrize("value", ["", "0", "1", "true", "False", "none", "EMPTY", "****", "xxxx", "[REDACTED]"])
def test_what_is_plainly_no_secret_stays(value: str) -> None:
    assert Redactor().clean_value("env[ENABLE_API_KEY]", value) == value


def test_a_tokens_number_is_a_knob_but_a_password_may_be_one() -> None:
    redactor = Redactor()
    assert redactor.clean_value("env[SOME_TOKEN]", "4096") == "4096"
    assert redacted_parts(str(redactor.clean_value("env[DB_PASSWORD]", "4096")))
    assert redactor.clean({"max_token": 4096, "password": 4096})["max_token"] == 4096
    assert redacted_parts(redactor.clean({"password": 4096})["password"])


def test_a_models_own_tokens_stay() -> None:
    config = {
        "eos_token": "<|im_end|>", "bos_token": {"content": "<s>", "lstrip": False}, "pad_token": "!",
        "unk_token": None,
        "additional_special_tokens": ["<think>", "</think>"], "eos_token_id": 151645, "bot_token": "[TOOL_CALLS]",
        "added_tokens_decoder": {"0": {"content": "<unk>"}}, "tokenizer_class": "Qwen2Tokenizer",
    }  # fmt: skip
    assert Redactor().clean(config) == config


def test_paths_of_secrets_stay() -> None:
    redactor = Redactor()
    for name, value in (
        ("GOOGLE_APPLICATION_CREDENTIALS", "/etc/gcp/service-account.json"),
        ("SSL_KEY", "/etc/ssl/private/host.pem"),
        ("PWD", "/home/someone/src"),
        ("MY_TOKEN", "~/.cache/huggingface/token"),
    ):
        assert redactor.clean_value(f"env[{name}]", value) == value
    assert redacted_parts(str(redactor.clean_value("env[PRIVATE_KEY]", "/9j4AAQSkZJRgABAQEASABIAAD2wBDAAgGBgcGB")))


def test_high_entropy_counts_only_under_a_name_that_may_be_secret() -> None:
    redactor = Redactor()
    digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"
    assert redactor.clean_value("repo[x].head", digest) == digest
    assert redactor.clean_value("env[IMAGE_DIGEST]", digest) == digest
    assert redacted_parts(str(redactor.clean_value("env[SOME_KEY]", digest)))
    assert redacted_parts(str(redactor.clean_value("env[NGC_TOKENS]", digest)))


def test_the_hash_shows_a_change_and_nothing_else() -> None:
    redactor = Redactor()
    one, again, two = (str(redactor.clean_value("env[API_KEY]", v)) for v in ("aaaa-1", "aaaa-1", "aaaa-2"))
    assert one == again != two
    assert len(one) == len(str(redactor.clean_value("env[API_KEY]", "x" * 40 + "1")))
    key_id, digest = redacted_parts(one) or ("", "")
    assert len(key_id) == 8
    assert len(digest) == 16
    assert redacted_parts(str(Redactor().clean_value("env[API_KEY]", "aaaa-1"))) != (key_id, digest)


def test_redacted_text_is_left_as_it_is() -> None:
    redactor = Redactor()
    once = redactor.clean({"env": {"API_KEY": "s3cret"}, "argv": ["x", "--api-key", "s3cret"], "t": "PASSWORD=s3cret"})
    assert redactor.clean(once) == once
    assert redactor.clean_text(f"Authorization: Bearer {once['env']['API_KEY']}").count("redacted") == 1
    assert Redactor().clean(once) == once
    assert redactor.summary()["redacted"] == 3


def test_only_the_secret_is_replaced_in_text() -> None:
    cleaned = Redactor().clean_text("curl -H 'X-Api-Key: s3cretvalue' http://u:pa55@host:80/x?sig=1&token=abcdef12&n=2")
    assert "s3cretvalue" not in cleaned
    assert "pa55" not in cleaned
    assert "abcdef12" not in cleaned
    for kept in ("curl -H 'X-Api-Key: <", ">' http://u:<", ">@host:80/x?sig=1&token=<", ">&n=2"):
        assert kept in cleaned


CODE = """\
-        next_token = self.tokenizer(prompt)
+        self.bot_token = "[TOOL_CALLS] ["
+    api_key: Optional[str] = None
+    token: str, key: torch.Tensor, num_tokens: int = 8192
+    def f(self, password=password, token=next_token, api_key=server_args.api_key):
+        key = f"{layer_id}_{name}"; cache_key = "fused_moe_8x128"
+        headers = {"Authorization": f"Bearer {api_key}"}
+        hf_token = os.environ["HF_TOKEN"] or os.getenv("HF_TOKEN")
+        logger.info("tokens: %d, token usage: %.2f", n, usage)
+    export HF_TOKEN=$HF_TOKEN WANDB_API_KEY=${WANDB_API_KEY} MAX_TOKENS=4096
+    url = f"https://{user}:{password}@{host}:{port}/v1"; git@github.com:org/repo.git
+    http://localhost:30000/generate ssh://git@github.com/org/repo see https://x.y/react@18
+    if "-----BEGIN PRIVATE KEY-----" in text:
"""


def test_code_stays_as_it_is() -> None:
    assert Redactor().clean_text(CODE) == CODE


def test_lists_are_read_as_command_lines() -> None:
    cleaned = Redactor().clean(
        ["sglang", "serve", "--api-key", "k1", "--port", "30000", "--admin-api-key=k2", "--max-tokens", "8",
         "--ssl-keyfile-password", "k3", "HF_TOKEN=k4 and k4", "-c", "export DB_PASSWORD=k5; run"]
    )  # fmt: skip
    assert [i for i, item in enumerate(cleaned) if "<redacted" in item] == [3, 6, 10, 11, 13]
    assert not any(f"k{n}" in " ".join(cleaned) for n in range(1, 6))
    assert Redactor().clean(["/usr/bin/sshpass", "-p", "hunter", "-phunter"])[2:] != ["hunter", "-phunter"]
    assert Redactor().clean(["serve", "-p", "8000"]) == ["serve", "-p", "8000"]
    assert Redactor().clean(["serve", "--api-key", "--port", "1"]) == ["serve", "--api-key", "--port", "1"]


def test_text_of_the_kernel_is_read_as_a_list() -> None:
    redactor = Redactor()
    cleaned = redactor.clean_text("server\0--api-key\0s3cret\0--port\0003\0DB_PASSWORD=a b c\0NCCL_ALGO=Ring\0")
    assert cleaned.split("\0")[3:5] == ["--port", "3"]
    assert cleaned.split("\0")[6:] == ["NCCL_ALGO=Ring", ""]
    assert "s3cret" not in cleaned
    assert "b c" not in cleaned
    assert redactor.clean(["API_KEY=a\0NCCL_ALGO=Ring"])[0].endswith("\0NCCL_ALGO=Ring")


def test_a_private_key_cut_into_lines_goes_as_a_whole() -> None:
    lines = [
        "before",
        "-----BEGIN RSA PRIVATE KEY-----",
        "MIIEpAIBAAKCAQEA",
        "abc=",
        "-----END RSA PRIVATE KEY-----",
        "x",
    ]
    cleaned = Redactor().clean(lines)
    assert (cleaned[0], cleaned[-1]) == ("before", "x")
    assert all(redacted_parts(line) for line in cleaned[1:-1])


def test_a_variable_written_as_name_and_value() -> None:
    cleaned = Redactor().clean([{"name": "DB_PASSWORD", "value": "hunter2"}, {"name": "NCCL_ALGO", "value": "Ring"}])
    assert redacted_parts(cleaned[0]["value"])
    assert cleaned[1] == {"name": "NCCL_ALGO", "value": "Ring"}


def test_everything_below_a_secret_name_is_secret() -> None:
    cleaned = Redactor().clean({"api_keys": ["k1-a", "k2-b"], "secret": {"a": {"b": "deep"}}})
    assert all(redacted_parts(text) for text in (*cleaned["api_keys"], cleaned["secret"]["a"]["b"]))


def test_reveal_and_redact() -> None:
    redactor = Redactor(reveal=["*_TOKEN", "DATABASE_URL"], redact=["MY_*", "CI_TOKEN"])
    url = "postgres://u:pa55@db/x"
    assert redactor.clean_value("env[HF_TOKEN]", "hf_abc") == "hf_abc"
    assert redactor.clean_value("env[DATABASE_URL]", url) == url
    assert redacted_parts(str(redactor.clean_value("env[CI_TOKEN]", "abc")))
    assert redacted_parts(str(redactor.clean_value("env[MY_KNOB]", "8")))
    assert "plainvalue" not in redactor.clean_text("export MY_KNOB=plainvalue")
    assert "pa55" not in redactor.clean_text(url)


def test_a_sweep_finds_known_secrets_without_their_names() -> None:
    redactor = Redactor()
    assert redactor.sweep({"x": ["a1b2c3d4e5"]}) == {"x": ["a1b2c3d4e5"]}
    hidden = redactor.clean({"api_key": "a1b2c3d4e5", "password": "postgres", "t": "--token t9k8e7n6 x"})
    assert redactor.sweep("run a1b2c3d4e5 on postgres") == f"run {hidden['api_key']} on postgres"
    assert redactor.sweep({"a1b2c3d4e5": [1, {"x": "=a1b2c3d4e5"}]}) == {
        hidden["api_key"]: [1, {"x": f"={hidden['api_key']}"}]
    }
    assert redactor.sweep_path("server[x/a1b2c3d4e5].args") == f'server["x/{hidden["api_key"]}"].args'
    assert redactor.sweep_path("server[x].args") == "server[x].args"


def test_a_secret_that_one_section_names_is_hidden_in_all() -> None:
    secret = "correct-horse-battery"
    host = FakeHost(
        {"/proc/cmdline": f"quiet {secret}\n"},
        replies={("environ",): {"DB_PASSWORD": secret, "ARGS": f"--x {secret}"}, ("uname",): missing("denied", secret)},
    )
    snapshot = capture(host=host, only=["environ", "kernel"])
    assert secret not in dumps(snapshot)
    assert "<redacted" in snapshot.values["env[ARGS]"]
    assert "<redacted" in snapshot.values["kernel.command_line"]


def test_secrets_in_paths() -> None:
    redactor = Redactor()
    assert redactor.clean_path("server[http://localhost:30000].args") == "server[http://localhost:30000].args"
    cleaned = redactor.clean_path("server[http://me:s3cret@localhost:30000].args")
    assert is_path(cleaned)
    assert cleaned.startswith('server["http://me:<redacted k=')
    assert is_path(redactor.clean_path(f"env[ghp_{'a1' * 18}]"))
    assert "a1a1" not in redactor.clean_path(f"env[ghp_{'a1' * 18}]")


def test_strange_names_and_values() -> None:
    redactor = Redactor()
    assert redactor.clean_value('env["A]B\\"[C_TOKEN"]', "abcdefgh") != "abcdefgh"
    assert redactor.clean_value(f"env[{'X' * 1_000_000}]", "abc") == "abc"
    assert redacted_parts(str(redactor.clean_value(f"env[{'X' * 1_000_000}_API_KEY]", "abc\udcff")))
    assert redactor.clean_text("İİ TOKEN=\udcff\udcfeabc x").startswith("İİ TOKEN=<redacted")
    assert redactor.clean({"n": None, "b": True, "f": 1.5}) == {"n": None, "b": True, "f": 1.5}
    deep: object = "end"
    for _ in range(MAX_DEPTH + 5):
        deep = [deep]
    assert "<nested too deeply>" in str(redactor.clean(deep))


HOSTILE = ["://", "://a:b", "://a/", "-eyJ", "-eyJaaaaaaaa.", "sk-", "-----BEGIN PRIVATE KEY-----A", "token=",
           "key=", "TOKEN=", "api_key: ", "password=self.", "bearer ", "--token ", '"token":"', "'key',",
           "<redacted k=", "[token]=", "password: str = ", "password=,a=", "ssh_key=/a", "Authorization: ", "cookie:a;",
           'token"]', "\\"]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
def test_no_text_takes_forever(piece: str) -> None:
    for tail in ("", "@", " @", '"'):
        text = piece * (20_000 // len(piece)) + tail
        assert Redactor().clean_text(text)
        for name in ("API_KEY", "PRIVATE_KEY", "A_TOKEN", "KEY"):
            Redactor().clean_value(f"env[{name}]", text)


# -- the key ------------------------------------------------------------------------------------------------


def test_the_key_is_made_only_for_a_secret_and_kept(tmp_path: Path) -> None:
    store = tmp_path / ".envsnap"
    idle = Redactor(store)
    idle.clean_value("env[NCCL_ALGO]", "Ring")
    assert not store.exists()
    assert idle.summary() == {"key_id": "", "redacted": 0, "key": "unused", "reason": ""}

    one, two = Redactor(store), Redactor(store)
    assert one.clean_value("env[API_KEY]", "abc") == two.clean_value("env[API_KEY]", "abc")
    assert one.summary()["key"] == two.summary()["key"] == "stored"
    assert stat.S_IMODE((store / KEY_FILE).stat().st_mode) == 0o600
    assert stat.S_IMODE(store.stat().st_mode) == 0o700
    assert (store / ".gitignore").read_text() == "*\n"


def _linked(path: Path) -> None:
    target = path.with_name("elsewhere")
    target.write_text("ab" * 32)
    target.chmod(0o600)
    path.symlink_to(target)


def _readable(path: Path) -> None:
    path.write_text("ab" * 32)
    path.chmod(0o644)


def _fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def _short(path: Path) -> None:
    path.write_text("abcd")
    path.chmod(0o600)


@pytest.mark.parametrize("plant", [_linked, _readable, _fifo, _short])
def test_a_key_that_cannot_be_trusted_is_not_used(tmp_path: Path, plant: object) -> None:
    assert callable(plant)
    plant(tmp_path / KEY_FILE)
    redactor = Redactor(tmp_path)
    assert redacted_parts(str(redactor.clean_value("env[API_KEY]", "abc")))
    assert redactor.summary()["key"] == "ephemeral"
    assert KEY_FILE in redactor.summary()["reason"]


def test_a_key_of_another_user_is_not_used(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    Redactor(tmp_path).clean_value("env[API_KEY]", "abc")
    os.chown(tmp_path / KEY_FILE, 65534, 65534)
    redactor = Redactor(tmp_path)
    redactor.clean_value("env[API_KEY]", "abc")
    assert redactor.summary()["key"] == "ephemeral"


def test_without_a_store_the_key_is_ephemeral(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for store in (None, tmp_path / "file" / "below"):
        redactor = Redactor(store)
        redactor.clean_value("env[API_KEY]", "abc")
        assert redactor.summary()["key"] == "ephemeral"
        assert redactor.summary()["reason"]


def test_threads_share_one_key(tmp_path: Path) -> None:
    redactors = [Redactor(tmp_path) for _ in range(4)]
    found: list[object] = []
    threads = [
        threading.Thread(target=lambda r=r: found.append(r.clean_value("env[API_KEY]", "abc"))) for r in redactors * 4
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(map(str, found))) == 1
    assert sum(int(str(r.summary()["redacted"])) for r in redactors) == 16


# -- comparing ----------------------------------------------------------------------------------------------

K1A, K1B = "<redacted k=11111111 h=aaaaaaaaaaaaaaaa>", "<redacted k=11111111 h=bbbbbbbbbbbbbbbb>"
K2A, K2B = "<redacted k=22222222 h=aaaaaaaaaaaaaaaa>", "<redacted k=22222222 h=bbbbbbbbbbbbbbbb>"


@pytest.mark.parametrize(
    ("a", "b", "known"),
    [
        ("Ring", "Tree", True),
        (K1A, K1A, True),
        (K1A, K1B, True),
        (K1A, K2A, False),
        (K1A, "clear", False),
        ("clear", K1A, False),
        (f"https://u:{K1A}@h/x", f"https://u:{K2A}@h/x", False),
        (f"https://u:{K1A}@h/x", f"https://u:{K2A}@h/y", True),
        (f"https://u:{K1A}@h/x", "https://u:clear@h/x", False),
        (f"https://u:{K1A}@h/x", "https://h/x", True),
        (f"a={K1A} b={K2A}", f"a={K2B} b={K2B}", True),
        (f"a={K1A} b={K1A}", f"a={K2B} b={K2B}", False),
        ({"api_key": K1A, "tp": 2}, {"api_key": K2A, "tp": 2}, False),
        ({"api_key": K1A, "tp": 2}, {"api_key": K2A, "tp": 4}, True),
        ({"api_key": K1A}, {"api_key": None}, True),
        (["a", K1A], ["a", K1B], True),
        (1, 2, True),
    ],
)
def test_hashes_of_different_keys_cannot_be_compared(a: object, b: object, known: bool) -> None:
    assert comparable(a, b) is known
    assert comparable(b, a) is known


def test_the_same_secret_hashes_alike_wherever_it_stands() -> None:
    redactor = Redactor()
    secret = "s3cretvalue"
    alone = redactor.clean_value("env[API_KEY]", secret)
    assert redactor.clean_text(f"API_KEY={secret} run") == f"API_KEY={alone} run"
    assert redactor.clean(["--api-key", secret, f"--api-key={secret}"]) == ["--api-key", alone, f"--api-key={alone}"]
    assert redactor.clean_text(f'{{"api_key": "{secret}"}}') == f'{{"api_key": "{alone}"}}'
    assert secrecy_of("API_KEY") is Secrecy.ALWAYS


@pytest.mark.parametrize(
    ("text", "around"),
    [
        ("sshpass -p hunter2 ssh gpu7", "sshpass -p  ssh gpu7"),
        ("sshpass -phunter2 ssh gpu7", "sshpass -p ssh gpu7"),
        ("ProxyCommand=sshpass -p 'hunter2' ssh x", "ProxyCommand=sshpass -p '' ssh x"),
        ("curl -s https://x -u hunter2 y", "curl -s https://x -u  y"),
        ("<password>hunter2</password>", "<password></password>"),
        ("%7B%22api_key%22%3A%22hunter2%22%7D", "%7B%22api_key%22%3A%22%22%7D"),
    ],
)
def test_passwords_without_a_name_that_tells(text: str, around: str) -> None:
    cleaned = Redactor().clean_text(text)
    assert "".join(re.split("<redacted k=.{8} h=.{16}>", cleaned)) == around
    assert cleaned != around


def test_a_program_that_takes_a_password_may_stand_behind_others() -> None:
    cleaned = Redactor().clean(["env", "A=1", "sshpass", "-p", "hunter2", "ssh"])
    assert [i for i, item in enumerate(cleaned) if "<redacted" in item] == [4]
    assert Redactor().clean_text("sshpass -p $PW ssh gpu7") == "sshpass -p $PW ssh gpu7"
