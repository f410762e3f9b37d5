//! Pages of `report` in a browser without a screen and without a network.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::outcome::{is_long, run_simulated, success};

/// What the policy of the page is replaced with, so that a script of the test can look at the page.
const POLICY: &str = "http-equiv=\"Content-Security-Policy\"";

/// Looks at the page: its width, what it loaded, its colours, and labels that meet.
const LOOK: &str = "<script>
const box = element => element.getBoundingClientRect();
const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
let meeting = 0;
for (const labels of document.querySelectorAll('svg.x, svg.y, svg.numbers')) {
  const boxes = [...labels.querySelectorAll('text')].map(box);
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach(b => { if (meet(a, b)) meeting += 1; }));
}
const plots = [...document.querySelectorAll('svg.plot')].map(box);
document.body.setAttribute('data-seen', JSON.stringify({
  width: innerWidth,
  overflow: document.documentElement.scrollWidth - innerWidth,
  requests: performance.getEntriesByType('resource').length,
  background: getComputedStyle(document.body).backgroundColor,
  plots: plots.filter(it => it.height > 50 && it.width > 150).length,
  all: plots.length,
  meeting,
}));
</script></body>";

/// Returns the browser, if one is installed and all is tested.
fn browser() -> Option<PathBuf> {
    if !is_long() {
        eprintln!("skipped: a browser is started with NODEWARD_TESTS=long only");
        return None;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file());
    if found.is_none() {
        eprintln!("skipped: there is no chromium; apt-get install chromium");
    }
    found
}

/// A page in a frame of this width: no window of the browser is as narrow as a phone.
fn framed(page: &str, width: u32) -> String {
    let page = page.replace('&', "&amp;").replace('"', "&quot;");
    let show = "const told = frame.contentDocument.body.getAttribute('data-seen');
                if (told) document.body.setAttribute('data-seen', told);";
    format!(
        "<!DOCTYPE html><meta charset=utf-8><style>:root {{ color-scheme: light dark }}</style>
         <body><iframe id=frame width={width} height=900 frameborder=0 srcdoc=\"{page}\"></iframe>
         <script>addEventListener('load', () => {{ {show} }})</script>"
    )
}

/// Opens a page in a frame of this width, and returns the document after its scripts ran.
fn opened(browser: &Path, page: &str, width: u32, is_dark: bool) -> String {
    let profile = tempfile::tempdir().unwrap();
    let file = profile.path().join("frame.html");
    std::fs::write(&file, framed(page, width)).unwrap();
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args(["--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]);
    command.arg(format!("--user-data-dir={}", profile.path().to_str().unwrap()));
    command.arg("--window-size=1400,1000");
    command.arg(format!("--blink-settings=preferredColorScheme={}", u32::from(!is_dark)));
    let output = command.arg("--dump-dom").arg(file).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Returns what the script found.
fn seen(document: &str) -> Option<Value> {
    let (_, rest) = document.split_once("<body data-seen=\"")?;
    let (found, _) = rest.split_once('"')?;
    serde_json::from_str(&found.replace("&quot;", "\"")).ok()
}

/// Goal: a page is drawn in light and dark, on a desk and on a phone: all its pictures have a size,
/// nothing is wider than the window, no labels meet, nothing is requested. Its own policy lets no
/// script run.
#[test]
fn a_page_is_drawn() {
    let Some(browser) = browser() else { return };
    for subject in ["--system", "1003"] {
        let words = format!("report {subject} --machine sim:home-2012 --for 20s -o -");
        let page = success(&words, run_simulated(&words)).replace("</body>", LOOK);
        assert_eq!(seen(&opened(&browser, &page, 1200, false)), None, "a script ran");
        let page = page.replace(POLICY, "name=\"policy\"");
        let mut backgrounds = Vec::new();
        for (width, is_dark) in [(1200, false), (1200, true), (390, false), (390, true)] {
            let document = opened(&browser, &page, width, is_dark);
            let found = seen(&document).unwrap_or_else(|| panic!("no result: {document}"));
            assert_eq!(found["width"], width, "{found}");
            assert!(found["overflow"].as_i64().unwrap() <= 0, "{found}");
            assert_eq!((&found["requests"], &found["meeting"]), (&0.into(), &0.into()), "{found}");
            assert_eq!(found["plots"], found["all"], "{found}");
            assert!(found["all"].as_u64() >= Some(3), "{found}");
            backgrounds.push(found["background"].clone());
        }
        assert_eq!(backgrounds[0], backgrounds[2]);
        assert_eq!(backgrounds[1], backgrounds[3]);
        assert_ne!(backgrounds[0], backgrounds[1], "dark is not light");
    }
}
