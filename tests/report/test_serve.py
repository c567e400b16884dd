"""``softkin report serve``: the loopback address, this folder, and nothing else."""

import http.client
import os
import re
import threading

import pytest
import torch

from command_line import run
from softkin import SoftkinError, cli, report
from softkin.lab import study
from softkin.lab.study.perform import resolve
from softkin.predictions import Predictions
from softkin.report import serve
from study_parts import quick


@pytest.fixture
def folder(tmp_path):
    pages = tmp_path / "pages"
    (pages / "deep").mkdir(parents=True)
    preds = Predictions(torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0, 1, 0]), name="tiny")
    report.write(pages / "deep" / "a page.html", report.build(preds, resamples=100))
    (tmp_path / "secret.html").write_text("secret")
    (pages / "link.html").symlink_to(tmp_path / "secret.html")
    (pages / ".hidden.html").write_text("hidden")
    (pages / "notes.txt").write_text("notes")
    return pages


@pytest.fixture
def server(folder):
    made = serve.PageServer(folder)
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


def ask(server, path, *, method="GET", host=None):
    address, port = server.server_address
    connection = http.client.HTTPConnection(address, port, timeout=10)
    connection.request(method, path, headers={"Host": host or f"{address}:{port}"})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer, content


def test_it_listens_to_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"


def test_the_pages_of_the_folder_are_served_and_nothing_else(server, folder):
    answer, content = ask(server, "/")
    assert answer.status == 200
    assert "deep/a page.html" in content
    assert "hidden" not in content
    assert "link.html" not in content
    answer, content = ask(server, "/page/deep/a%20page.html")
    assert content == (folder / "deep" / "a page.html").read_text()
    assert answer.headers["Content-Security-Policy"].startswith("sandbox allow-scripts")
    assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]
    for path in (
        "/page/link.html",
        "/page/.hidden.html",
        "/page/notes.txt",
        "/page/../secret.html",
        "/page/%2e%2e/secret.html",
        "/page//etc/passwd",
        "/etc/passwd",
        "/page/",
    ):
        answer, content = ask(server, path)
        assert answer.status == 404, path
        assert "secret" not in content
    assert ask(server, "/", method="POST")[0].status == 501


def test_the_list_says_what_each_page_says(server, folder):
    (folder / "other.html").write_text("<h1>not ours</h1>")
    os.utime(folder / "other.html", (0, 0))
    _, content = ask(server, "/")
    said = re.search('<h1 id="headline"[^>]*>(.*?)</h1>', (folder / "deep" / "a page.html").read_text())[1]
    assert said.replace('<bdi class="name">', "").replace("</bdi>", "") in content
    assert content.index("deep/a page.html") < content.index("other.html")  # the newest first
    assert "1970-01-0" in content
    assert "width=device-width" in content
    _, frame = ask(server, "/view/other.html")
    assert '<a href="/">' in frame


def test_a_name_that_another_site_made_point_here_is_refused(server):
    assert ask(server, "/", host="evil.example:80")[0].status == 403
    assert ask(server, "/", host=f"localhost:{server.server_address[1]}")[0].status == 200


@pytest.mark.slow
def test_an_open_page_is_loaded_again_when_its_file_changes(server, folder, browser):
    file = folder / "deep" / "a page.html"
    stamp = ask(server, "/stamp/deep/a%20page.html")[1]
    browser.driver.get(f"{server.url}view/deep/a%20page.html#bins=5")
    frame = browser.driver.find_element("css selector", "iframe")
    browser.driver.switch_to.frame(frame)
    browser.wait("document.querySelector('h1') !== null")
    browser.wait("performance.getEntriesByName('softkin-complete').length > 0")
    browser.wait("document.querySelectorAll('#reliability .zone').length === 2 * 5")
    browser.driver.switch_to.default_content()
    browser.wait("new Promise((done) => setTimeout(() => done(true), 1500))")  # it has looked once
    file.write_text(file.read_text().replace("<h1", "<h1 data-new", 1))
    os.utime(file, ns=(1, 1))
    assert ask(server, "/stamp/deep/a%20page.html")[1] != stamp
    browser.wait("document.querySelector('iframe').src.includes('?')")
    browser.driver.switch_to.frame(frame)
    browser.wait("document.querySelector('h1[data-new]') !== null")
    browser.driver.switch_to.default_content()


@pytest.mark.slow
def test_an_open_page_of_a_study_follows_its_results(tmp_path, browser):
    """A real study: `refresh_studies` is called before each of its runs, as the server's other thread might."""
    folder = tmp_path / "studies" / "study"
    study.keep(folder, resolve(quick(methods=["one-hot", "ts"], beta=[2.0])))
    server = serve.PageServer(folder.parent)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    said, done, unfinished = [], {}, []

    def frame_says(condition):
        browser.driver.switch_to.frame(browser.driver.find_element("css selector", "iframe"))
        browser.wait(f"performance.getEntriesByName('softkin-complete').length > 0 && {condition}")
        browser.driver.switch_to.default_content()

    def between_runs(_):
        before = len(said)
        serve.refresh_studies(folder.parent, done, said.append)
        if len(said) > before == 0:
            browser.driver.get(f"{server.url}view/study/report.html")
            frame_says("document.body.textContent.includes('Unfinished: ')")
            browser.wait("new Promise((done) => setTimeout(() => done(true), 1500))")  # the frame has looked once
            unfinished.append(True)

    try:
        study.work(folder, update=between_runs)
        serve.refresh_studies(folder.parent, done, said.append)
        serve.refresh_studies(folder.parent, done, said.append)
        assert unfinished
        browser.wait("document.querySelector('iframe').src.includes('?')")
        frame_says("!document.body.textContent.includes('Unfinished: ')")
    finally:
        browser.driver.switch_to.default_content()
        server.shutdown()
        server.server_close()
        thread.join()
    counts = [int(re.search(r", (\d+) runs done$", sentence)[1]) for sentence in said]
    assert len(counts) > 1
    assert counts == sorted(set(counts))  # a page for each change, none for nothing
    assert counts[-1] == len(list(folder.glob("runs/*/record.json")))


def test_serving_writes_only_if_asked_and_never_through_a_link(tmp_path, monkeypatch):
    folder = tmp_path / "theirs"
    study.keep(folder, resolve(quick(methods=["one-hot"])))
    study.work(folder)
    for name in ("report.html", "report.json"):
        (folder / name).unlink(missing_ok=True)
        (tmp_path / name).write_text("mine")
        (folder / name).symlink_to(tmp_path / name)
    said = []
    monkeypatch.setattr(serve.PageServer, "serve_forever", lambda self: said.append(threading.active_count()))
    before = threading.active_count()
    assert cli.main(["report", "serve", str(folder)]) == 0
    assert said == [before]  # nobody watches, so nobody writes
    serve.refresh_studies(folder, {folder: 0}, said.append)
    serve.refresh_studies(tmp_path, {folder: 0}, said.append)
    assert said[1:] == []
    (folder / "report.html").unlink()
    (folder / "report.json").unlink()
    served = tmp_path / "served"
    served.mkdir()
    (served / "study").symlink_to(folder)
    serve.refresh_studies(served, {}, said.append)
    assert said[1:] == []
    assert not (folder / "report.html").exists()
    assert [(tmp_path / name).read_text() for name in ("report.html", "report.json")] == ["mine", "mine"]


def test_wrong_folders_and_ports_are_one_sentence(tmp_path, capsys, server):
    code, _, err = run(capsys, "report", "serve", tmp_path / "absent")
    assert (code, err.strip()) == (
        2,
        f"softkin report: FOLDER must be a folder of pages, but {tmp_path / 'absent'} is not a folder.",
    )
    with pytest.raises(SoftkinError, match="cannot be used"):
        serve.PageServer(tmp_path, port=server.server_address[1])
