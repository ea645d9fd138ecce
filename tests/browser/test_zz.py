import pytest
from test_agent_cells import script, python, LOAD
from playwright.sync_api import expect
PATCH = """
import ipyagent.ui.card as c, threading, time, traceback
log = open('/tmp/heard.log','a')
old, olds = c.LiveCard._heard, c.LiveCard._snapshot
def heard(self, w, m, b):
    print(time.strftime('%X'), 'heard', m.get('kind'), threading.current_thread().name, file=log, flush=True)
    try: old(self, w, m, b)
    except BaseException: traceback.print_exc(file=log); log.flush()
    print(time.strftime('%X'), 'done', file=log, flush=True)
c.LiveCard._heard = heard
oldf = c.LiveCard.flush
def flush(self):
    oldf(self)
    print(time.strftime('%X'), 'flushed', self._seq, threading.current_thread().name, file=log, flush=True)
c.LiveCard.flush = flush
oldi = c.LiveCard.__init__
"""
@pytest.mark.parametrize("n", [1,3,5,7])
def test_x(jupyterlab, notebook, n):
    code = "import time; time.sleep(6)" if n % 2 else "pass"
    mode = " --confirm yolo" if n % 2 else ""
    option = script(jupyterlab.folder, "z", python(code), "Never.")
    book = notebook(LOAD + PATCH, f"%%agent {option}{mode}\nSleep.", ready=False)
    frames=[]; got=[]
    book.page.on("websocket", lambda w: (w.on("framesent", lambda p: frames.append(p)), w.on("framereceived", lambda p: got.append(p))))
    book.open().ready()
    book.start_all()
    book.page.wait_for_timeout(4500)
    print(n, 'CARD', book.run(1).count(), book.output(1).text_content()[:80])
    for f in frames:
        b = f if isinstance(f,bytes) else f.encode()
        for key in (b'"execute_request"', b'comm_info_request', b'create_subshell', b'"init"'):
            if key in b: print('   ', key, b[b.index(b'"date"'):][8:34])
    for f in got:
        b = f if isinstance(f,bytes) else f.encode()
        if b'"op"' in b: print('   <', b[b.index(b'"op"'):][:40], len(b), b[b.index(b'"seq"'):][:10])
    book.page.screenshot(path=f'/tmp/shots/z{n}.png')
