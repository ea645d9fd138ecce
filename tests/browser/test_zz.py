import pytest
from test_agent_cells import script, python, LOAD
from playwright.sync_api import expect
@pytest.mark.parametrize("n", range(6))
def test_x(jupyterlab, notebook, n):
    code = "import time; time.sleep(6)" if n % 2 else "pass"
    mode = " --confirm yolo" if n % 2 else ""
    option = script(jupyterlab.folder, "z", python(code), "Never.")
    book = notebook(LOAD, f"%%agent {option}{mode}\nSleep.", ready=False)
    frames=[]
    book.page.on("websocket", lambda w: w.on("framesent", lambda p: frames.append(p)))
    book.open().ready()
    book.start_all()
    book.page.wait_for_timeout(4500)
    print(n, 'CARD', book.run(1).count(), book.output(1).text_content()[:80])
    for f in frames:
        b = f if isinstance(f,bytes) else f.encode()
        for key in (b'"execute_request"', b'comm_info_request', b'create_subshell', b'"init"'):
            if key in b: print('   ', key, b[b.index(b'"date"'):][8:34])
    book.page.screenshot(path=f'/tmp/shots/z{n}.png')
