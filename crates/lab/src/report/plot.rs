//! Draws a figure as SVG: no script, no font, no file beside it.

use super::page::escape;
use super::scale::{Range, short};
use crate::figure::{Axis, Figure, Origin, Point, Series, Style};
use std::fmt::Write;

/// Size of the drawing and of the field for the data within it, in pixels.
const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 74.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 52.0;
/// Height of a line of the legend.
const LEGEND_LINE: f64 = 20.0;

/// Okabe and Ito's colours, which the colour-blind tell apart, without the yellow that white swallows.
const COLOURS: [&str; 7] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444"];

/// The field for the data.
struct Field {
    x: Range,
    y: Range,
}

impl Field {
    fn of(figure: &Figure) -> Self {
        let points = || figure.series.iter().flat_map(|series| &series.points);
        let ends = |point: &Point| {
            let (low, high) = point.interval.unwrap_or((point.y, point.y));
            [point.y, low, high]
        };
        Self {
            x: Range::of(figure.x.scale, points().map(|point| point.x)),
            y: Range::of(figure.y.scale, points().flat_map(ends)),
        }
    }

    fn x(&self, value: f64) -> Option<f64> {
        Some(LEFT + self.x.place(value)? * (WIDTH - LEFT - RIGHT))
    }

    fn y(&self, value: f64) -> Option<f64> {
        Some(TOP + (1.0 - self.y.place(value)?) * (HEIGHT - TOP - BOTTOM))
    }

    fn at(&self, point: &Point) -> Option<(f64, f64)> {
        Some((self.x(point.x)?, self.y(point.y)?))
    }
}

/// The drawing.
pub(crate) fn svg(figure: &Figure) -> String {
    let field = Field::of(figure);
    let height = HEIGHT + LEGEND_LINE * figure.series.len() as f64;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\" xmlns=\"http://www.w3.org/2000/svg\">\n",
        escape(&figure.title)
    );
    axes(&mut out, figure, &field);
    for (number, series) in figure.series.iter().enumerate() {
        let colour = colour(figure, number);
        draw(&mut out, series, colour, &field);
        legend(&mut out, series, colour, HEIGHT + LEGEND_LINE * (number as f64 + 0.5));
    }
    out.push_str("</svg>\n");
    out
}

/// What belongs together, the first of each origin and so on, has one colour.
fn colour(figure: &Figure, number: usize) -> &'static str {
    let origin = figure.series[number].origin;
    let before = figure.series[..number].iter().filter(|series| series.origin == origin).count();
    COLOURS[before % COLOURS.len()]
}

/// Adds a piece. Writing to a string does not fail.
macro_rules! add {
    ($out:expr, $($piece:tt)*) => { let _ = writeln!($out, $($piece)*); };
}

fn axes(out: &mut String, figure: &Figure, field: &Field) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
    for mark in field.x.marks() {
        if let Some(x) = field.x(mark) {
            add!(out, "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>");
            // The last number would stand out over the edge.
            let anchor = if x > right - 20.0 { "end" } else { "middle" };
            add!(out, "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>", bottom + 17.0, short(mark));
        }
    }
    for mark in field.y.marks() {
        if let Some(y) = field.y(mark) {
            add!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>");
            add!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>", LEFT - 7.0, y + 4.0, short(mark));
        }
    }
    add!(out, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
    let middle = (LEFT + right) / 2.0;
    add!(out, "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\">{}</text>", HEIGHT - 12.0, title(&figure.x));
    let middle = (TOP + bottom) / 2.0;
    add!(
        out,
        "<text transform=\"translate(16 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        title(&figure.y)
    );
}

fn title(axis: &Axis) -> String {
    if axis.unit.is_empty() { escape(&axis.label) } else { escape(&format!("{} ({})", axis.label, axis.unit)) }
}

fn draw(out: &mut String, series: &Series, colour: &str, field: &Field) {
    for point in &series.points {
        if let (Some((low, high)), Some(x)) = (point.interval, field.x(point.x)) {
            let ends = (field.y(low), field.y(high));
            if let (Some(low), Some(high)) = ends {
                add!(
                    out,
                    "<path d=\"M{:.1} {low:.1}h8m-4 0V{high:.1}m-4 0h8\" fill=\"none\" stroke=\"{colour}\"/>",
                    x - 4.0
                );
            }
        }
    }
    let places: Vec<(f64, f64)> = series.points.iter().filter_map(|point| field.at(point)).collect();
    if series.style != Style::Points && places.len() > 1 {
        let path = path(&places, series.style);
        let dash = dash(series.origin);
        add!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>");
    }
    if matches!(series.style, Style::Points | Style::Lines) {
        for point in &series.points {
            if let Some((x, y)) = field.at(point) {
                let fill = fill(series.origin, colour);
                add!(
                    out,
                    "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"><title>{}: {}, {}</title></circle>",
                    escape(&series.name),
                    short(point.x),
                    short(point.y)
                );
            }
        }
    }
}

fn path(places: &[(f64, f64)], style: Style) -> String {
    let mut path = format!("M{:.1} {:.1}", places[0].0, places[0].1);
    for (x, y) in &places[1..] {
        let _ = match style {
            Style::Steps => write!(path, "H{x:.1}V{y:.1}"),
            Style::Points | Style::Lines | Style::Curve => write!(path, "L{x:.1} {y:.1}"),
        };
    }
    path
}

fn legend(out: &mut String, series: &Series, colour: &str, y: f64) {
    let (dash, fill) = (dash(series.origin), fill(series.origin, colour));
    if series.style != Style::Points {
        add!(out, "<path d=\"M{LEFT} {y}h28\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dash}/>");
    }
    if matches!(series.style, Style::Points | Style::Lines) {
        add!(
            out,
            "<circle cx=\"{}\" cy=\"{y}\" r=\"4\" fill=\"{fill}\" stroke=\"{colour}\" stroke-width=\"1.5\"/>",
            LEFT + 14.0
        );
    }
    let origin = match series.origin {
        Origin::Measured => "",
        Origin::Published => " (published)",
        Origin::Model => " (model)",
    };
    add!(out, "<text x=\"{}\" y=\"{}\">{}{origin}</text>", LEFT + 36.0, y + 4.0, escape(&series.name));
}

const fn dash(origin: Origin) -> &'static str {
    match origin {
        Origin::Measured => "",
        Origin::Published => " stroke-dasharray=\"7 4\"",
        Origin::Model => " stroke-dasharray=\"2 4\"",
    }
}

const fn fill(origin: Origin, colour: &str) -> &str {
    match origin {
        Origin::Measured => colour,
        Origin::Published | Origin::Model => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    fn figure(series: Vec<Series>) -> Figure {
        Figure {
            title: "A & B".into(),
            x: Axis::linear("time", "s"),
            y: Axis::logarithmic("rate", "Mb/s"),
            series,
            caption: String::new(),
        }
    }

    #[test]
    fn every_series_is_drawn_with_its_intervals_and_named() {
        let ours = Estimate { mean: 5.0, low: 4.0, high: 6.0, samples: 3 };
        let text = svg(&figure(vec![
            Series::estimates("ours <1>", Style::Lines, Origin::Measured, [(1.0, ours), (2.0, ours)]),
            Series::new("theirs", Style::Points, Origin::Published, [(1.0, 7.0)]),
        ]));
        assert!(text.contains("ours &lt;1&gt;") && text.contains("theirs (published)") && text.contains("A &amp; B"));
        assert!(text.contains("time (s)") && text.contains("rate (Mb/s)"));
        // Three points and two in the legend; two intervals.
        assert_eq!(text.matches("<circle").count(), 5);
        assert_eq!(text.matches("m-4 0h8").count(), 2);
    }

    #[test]
    fn a_series_and_its_model_have_one_colour() {
        let series = |name, origin| Series::new(name, Style::Curve, origin, [(1.0, 1.0), (2.0, 2.0)]);
        let figure = figure(vec![
            series("a", Origin::Measured),
            series("a", Origin::Model),
            series("b", Origin::Measured),
            series("b", Origin::Published),
        ]);
        let colours = [0, 1, 2, 3].map(|number| colour(&figure, number));
        assert_eq!(colours, [COLOURS[0], COLOURS[0], COLOURS[1], COLOURS[0]]);
    }

    #[test]
    fn figures_without_data_can_be_drawn() {
        let text = svg(&figure(vec![Series::new("none", Style::Steps, Origin::Model, [])]));
        assert!(text.ends_with("</svg>\n") && !text.contains("NaN") && !text.contains("inf"));
    }
}
