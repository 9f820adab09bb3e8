//! Pages of reports, looked at in a real browser: what it drew, where it put it, what it fetched.

// Helpers of tests may unwrap as the tests themselves do.
#![allow(clippy::unwrap_used)]

mod common;

use common::Quiet;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wayfs_lab::{
    Aim, Axis, Context, Estimate, Experiment, Figure, Findings, LabError, Options, Origin, Row, Series, Style, report,
    run,
};

/// Longest time for the browser to draw a page on a busy machine.
const DRAWN: Duration = Duration::from_secs(100);
/// Names under which it is installed.
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// Room that a text may take beyond the edge of its plot, in pixels: letters are not as wide everywhere.
const SLACK: f64 = 4.0;

/// Put at the end of a page: says what was drawn where, what was fetched, and what went wrong.
const LOOK: &str = r#"<script>
const place = element => { const r = element.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const all = (from, what) => [...from.querySelectorAll(what)];
const seen = {
  errors: errors,
  fetched: performance.getEntriesByType("resource").map(entry => entry.name),
  page: [document.documentElement.clientWidth, document.documentElement.scrollWidth],
  title: document.title,
  headings: all(document, "h2").map(heading => heading.textContent),
  links: all(document, "a").map(link => link.getAttribute("href")),
  missed: all(document, ".missed").map(cell => cell.textContent),
  plots: all(document, "svg").map(svg => ({
    name: svg.getAttribute("aria-label"), place: place(svg),
    texts: all(svg, "text").map(text => [text.textContent, ...place(text)]),
    drawn: all(svg, "path, circle").filter(mark => mark.getAttribute("class") !== "axis").map(place),
  })),
};
const out = document.createElement("pre");
out.id = "seen";
out.textContent = JSON.stringify(seen);
document.body.append(out);
</script>"#;
/// Put at its beginning.
const LISTEN: &str =
    r#"<script>const errors = []; addEventListener("error", event => errors.push(event.message), true);</script>"#;

#[test]
fn a_report_is_drawn_with_plots_labels_and_nothing_from_elsewhere() {
    let Some(browser) = browser() else { return };
    let out = tempfile::tempdir().unwrap();
    run(&Plots, &options(out.path()), &Quiet).unwrap();
    let seen = look(&browser, &out.path().join("plots/report.html"));
    assert_sound(&seen);
    assert_eq!(seen["title"], "WayFS laboratory: plots");
    let headings: Vec<&str> = seen["headings"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(
        headings,
        [
            "What was expected",
            "What came out",
            "Why they differ",
            "Numbers",
            "Lines & steps",
            "Many decades",
            "Circumstances"
        ]
    );
    assert_eq!(seen["missed"], serde_json::json!(["at most 1: missed"]));
    let plots = seen["plots"].as_array().unwrap();
    assert_eq!(plots.len(), 2);
    for (plot, labels) in plots.iter().zip([["time (s)", "share of closes"], ["size (kB)", "delay <of> packets (us)"]])
    {
        assert_drawn(plot, &labels);
    }
    let has = |plot: &Value, words: &str| plot["texts"].as_array().unwrap().iter().any(|text| text[0] == words);
    assert!(has(&plots[0], "theirs (published)") && has(&plots[1], "1.00e6"), "{plots:#?}");
}

#[test]
fn the_index_leads_to_every_report() {
    let Some(browser) = browser() else { return };
    let out = tempfile::tempdir().unwrap();
    run(&Plots, &options(out.path()), &Quiet).unwrap();
    let seen = look(&browser, &report(out.path()).unwrap());
    assert_sound(&seen);
    let links: Vec<&str> = seen["links"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(links, ["plots/report.html"]);
    assert!(out.path().join(links[0]).exists());
}

/// No errors, nothing fetched, nothing beside the page.
fn assert_sound(seen: &Value) {
    assert_eq!(seen["errors"], serde_json::json!([]));
    assert_eq!(seen["fetched"], serde_json::json!([]));
    let (width, needed) = (seen["page"][0].as_f64().unwrap(), seen["page"][1].as_f64().unwrap());
    assert!(needed <= width, "the page is {needed} wide and the window {width}");
}

/// A plot of a size that can be read, whose axes are labelled, and which keeps everything within its frame.
fn assert_drawn(plot: &Value, labels: &[&str]) {
    let frame = place(&plot["place"], 0);
    assert!(frame[2] - frame[0] > 300.0 && frame[3] - frame[1] > 200.0, "{plot:#}");
    let texts = plot["texts"].as_array().unwrap();
    for label in labels {
        assert!(texts.iter().any(|text| text[0] == *label), "no label {label} in {texts:#?}");
    }
    let numbers = texts.iter().filter(|text| text[0].as_str().unwrap().parse::<f64>().is_ok()).count();
    assert!(numbers >= 6, "only {numbers} marks on the axes: {texts:#?}");
    for text in texts {
        assert!(is_within(place(text, 1), frame), "{text} reaches over its frame {frame:?}");
    }
    let drawn = plot["drawn"].as_array().unwrap();
    assert!(drawn.len() >= 4, "{drawn:?}");
    assert!(drawn.iter().all(|mark| is_within(place(mark, 0), frame)), "{drawn:?}");
}

fn place(value: &Value, from: usize) -> [f64; 4] {
    [0, 1, 2, 3].map(|at| value[from + at].as_f64().unwrap())
}

fn is_within(inner: [f64; 4], outer: [f64; 4]) -> bool {
    inner[0] >= outer[0] - SLACK
        && inner[1] >= outer[1] - SLACK
        && inner[2] <= outer[2] + SLACK
        && inner[3] <= outer[3] + SLACK
}

/// What the browser saw of a page.
fn look(browser: &Path, page: &Path) -> Value {
    let text = std::fs::read_to_string(page).unwrap();
    assert!(text.contains("<head>") && text.contains("</body>"));
    let text = text.replacen("<head>", &format!("<head>{LISTEN}"), 1).replacen("</body>", &format!("{LOOK}</body>"), 1);
    let copy = page.with_extension("looked-at.html");
    std::fs::write(&copy, text).unwrap();
    let dom = draw(browser, &copy);
    let (_, rest) =
        dom.split_once("<pre id=\"seen\">").unwrap_or_else(|| panic!("the page did not get to its end: {dom}"));
    let json = rest.split_once("</pre>").unwrap().0;
    let json = json.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    serde_json::from_str(&json).unwrap()
}

/// The page as it is after its scripts ran.
fn draw(browser: &Path, page: &Path) -> String {
    let profile = tempfile::tempdir().unwrap();
    let dom = profile.path().join("dom");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-dev-shm-usage", "--window-size=1100,2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .env("HOME", profile.path())
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(&dom).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > DRAWN {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the browser took longer than {DRAWN:?}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::read_to_string(dom).unwrap()
}

/// The installed browser; tells that there is none.
fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).flat_map(|place| BROWSERS.map(|name| place.join(name)));
    let found = places.into_iter().find(|browser| browser.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: there is no browser; install the package chromium");
    }
    found
}

/// An experiment with every kind of series and axis.
struct Plots;

impl Experiment for Plots {
    fn name(&self) -> &'static str {
        "plots"
    }

    fn about(&self) -> &'static str {
        "Is everything drawn?"
    }

    fn run(&self, context: &mut Context<'_>) -> Result<Findings, LabError> {
        context.csv("raw", &["nothing"])?.finish()?;
        let estimates = [1.0, 2.0, 4.0].map(|x| (x, Estimate { mean: x, low: 0.5 * x, high: 1.5 * x, samples: 5 }));
        let lines = [
            Series::estimates("ours", Style::Lines, Origin::Measured, estimates),
            Series::new("theirs", Style::Lines, Origin::Published, [(1.0, 2.0), (4.0, 3.0)]),
            Series::cumulative("shares", Origin::Measured, vec![1.0, 2.0, 3.0]),
            Series::new("a model", Style::Curve, Origin::Model, [(0.0, 0.0), (4.0, 4.0)]),
        ];
        let decades = [
            Series::new("points", Style::Points, Origin::Measured, [(0.01, 10.0), (1.0, 1e3), (100.0, 1e6)]),
            Series::new("curve", Style::Curve, Origin::Measured, [(0.01, 20.0), (100.0, 5e5)]),
        ];
        let figure = |title: &str, x, y, series: Vec<Series>| Figure {
            title: title.to_owned(),
            x,
            y,
            series,
            caption: "What to see.".into(),
        };
        Ok(Findings {
            expected: "yes".into(),
            came_out: "yes".into(),
            why_they_differ: "they do not".into(),
            rows: vec![
                Row::new("one", "s", Estimate::exact(2.0)).aim(Aim::AtMost(1.0)),
                Row::new("two", "s", Estimate::exact(2.0)).aim(Aim::AtLeast(1.0)),
            ],
            figures: vec![
                figure("Lines & steps", Axis::linear("time", "s"), Axis::linear("share of closes", ""), lines.into()),
                figure(
                    "Many decades",
                    Axis::logarithmic("size", "kB"),
                    Axis::logarithmic("delay <of> packets", "us"),
                    decades.into(),
                ),
            ],
        })
    }
}

fn options(out: &Path) -> Options {
    Options { seed: 7, quick: true, out: out.to_owned(), program: PathBuf::from("wayfs"), settings: BTreeMap::new() }
}
