//! A chart over time, as SVG with a table of the same values beside it.
//!
//! Shapes are stretched to the width of the page; text is not, so that it can be read on a narrow
//! screen, too.

use super::bands::Bands;
use super::markup::{Element, element};
use super::scale::{Quantity, ValueAxis, clock, time_ticks};
use crate::results::observation::ByNode;

/// The coordinates inside a plot.
const WIDTH: u64 = 2000;
const HEIGHT: u64 = 1000;
/// The width of a value that has no others beside it.
const BAR_WIDTH: u64 = 16;
/// Points of a shape at most: of a chart over the whole width, and of a small one.
const POINTS_MAX: usize = 300;
const SMALL_POINTS_MAX: usize = 60;
/// Rows of the table beside a chart.
const ROWS_MAX: usize = 9;
/// Numbers of marks that are nearer to each other than this would meet: thousandths of the width.
const MARK_GAP: u64 = 35;

/// Values by band at one time, in nanoseconds since the beginning; `None` where nothing is known.
pub type ChartPoint = (u64, Option<Vec<u64>>);

/// A time with a number, which a table explains.
#[derive(Clone, Debug)]
pub struct ChartMark {
    /// Its beginning and its end, in nanoseconds.
    pub span_ns: (u64, u64),
    /// Its number.
    pub number: usize,
    /// What happened.
    pub title: String,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Areas, one on the other.
    Stacked,
    /// Lines.
    Lines,
}

/// A chart.
pub struct TimeChart<'a> {
    /// Its name among all charts of the page.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// What its values are.
    pub quantity: Quantity,
    /// How they are drawn.
    pub shape: Shape,
    /// The names of its bands, each with the class that colours it.
    pub bands: Vec<(String, &'static str)>,
    /// The values, in ascending order of time.
    pub points: Vec<ChartPoint>,
    /// The end of its axis of time, in nanoseconds.
    pub end_ns: u64,
    /// Whether it is one of several side by side.
    pub is_small: bool,
    /// Marked times.
    pub marks: &'a [ChartMark],
}

impl TimeChart<'_> {
    /// Returns a chart of values by node.
    pub fn by_node<'a>(
        (id, title): (&str, &str),
        quantity: Quantity,
        bands: &Bands,
        points: impl Iterator<Item = (u64, &'a ByNode)>,
        end_ns: u64,
    ) -> Self {
        Self {
            id: id.to_owned(),
            title: title.to_owned(),
            quantity,
            shape: Shape::Stacked,
            bands: bands.names(),
            points: points.map(|(at, values)| (at, Some(bands.values(values)))).collect(),
            end_ns,
            is_small: false,
            marks: &[],
        }
    }

    /// Formats it.
    pub fn figure(&self) -> Element {
        let axis = ValueAxis::of(self.quantity, self.highest());
        let heading = element("figcaption").text(&self.title);
        let plot = element("div")
            .class("axes")
            .children(self.mark_numbers())
            .child(self.labels(axis))
            .child(self.plot(axis))
            .child(self.times());
        let class = if self.is_small { "small" } else { "wide" };
        element("figure").class(class).child(heading).child(plot).child(self.table())
    }

    fn highest(&self) -> u64 {
        let of = |values: &Vec<u64>| match self.shape {
            Shape::Stacked => values.iter().sum(),
            Shape::Lines => values.iter().copied().max().unwrap_or(0),
        };
        self.points.iter().filter_map(|(_, values)| values.as_ref().map(of)).max().unwrap_or(0)
    }

    fn labels(&self, axis: ValueAxis) -> Element {
        let label = |tick: u64| {
            let text = element("text").with("x", "100%").with("y", height(tick, axis));
            text.with("dx", "-6").with("dy", "0.35em").text(self.quantity.label(tick))
        };
        hidden("y").children(axis.ticks().map(label))
    }

    fn times(&self) -> Element {
        let label = |at_ns: u64| {
            let x = thousandths(at_ns, self.end_ns);
            let anchor = match x {
                0 => "start",
                930.. => "end",
                _ => "middle",
            };
            let text = element("text").with("x", percent(x)).with("y", "14");
            text.class(anchor).text(clock(at_ns))
        };
        let ticks = time_ticks(self.end_ns);
        let ticks = if self.is_small { vec![0, ticks[ticks.len() - 1]] } else { ticks };
        let mut ticks = ticks;
        ticks.dedup();
        hidden("x").children(ticks.into_iter().map(label))
    }

    fn mark_numbers(&self) -> Option<Element> {
        let mut last = None;
        let apart = |mark: &&ChartMark| {
            let at = thousandths(mark.span_ns.0, self.end_ns);
            let is_apart = last.is_none_or(|last: u64| at >= last + MARK_GAP);
            last = if is_apart { Some(at) } else { last };
            is_apart
        };
        let number = |mark: &ChartMark| {
            let x = percent(thousandths(mark.span_ns.0, self.end_ns).clamp(8, 990));
            element("text").with("x", x).with("y", "12").class("middle").text(mark.number)
        };
        let mut marks: Vec<&ChartMark> = self.marks.iter().collect();
        marks.sort_by_key(|mark| mark.span_ns);
        let numbers: Vec<_> = marks.into_iter().filter(apart).map(number).collect();
        (!numbers.is_empty()).then(|| hidden("numbers").children(numbers))
    }

    fn plot(&self, axis: ValueAxis) -> Element {
        let title = element("title").with("id", format!("{}-title", self.id)).text(&self.title);
        let shapes = element("svg")
            .with("viewBox", format!("0 0 {WIDTH} {HEIGHT}"))
            .with("preserveAspectRatio", "none")
            .with("width", "100%")
            .with("height", "100%")
            .children(self.shapes(axis));
        let line = |tick: u64| {
            let y = height(tick, axis);
            let line = element("line").class("step").with("x1", "0").with("x2", "100%");
            line.with("y1", &y).with("y2", &y)
        };
        element("svg")
            .class("plot")
            .with("role", "img")
            .with("aria-labelledby", format!("{}-title", self.id))
            .child(title)
            .child(shapes)
            .children(axis.ticks().map(line))
            .children(self.marks.iter().map(|mark| self.mark(mark)))
    }

    fn mark(&self, mark: &ChartMark) -> Element {
        let [from, to] = [mark.span_ns.0, mark.span_ns.1].map(|ns| thousandths(ns, self.end_ns));
        let bar = element("rect").class("mark").with("x", percent(from)).with("y", "0");
        let bar = bar.with("width", percent(to.saturating_sub(from).max(4))).with("height", "6");
        let edge = |x: u64| {
            let line = element("line").class("edge").with("x1", percent(x)).with("x2", percent(x));
            line.with("y1", "0").with("y2", "100%")
        };
        let title = element("title").text(format!("{}: {}", mark.number, mark.title));
        element("g").child(title).children([edge(from), edge(to), bar])
    }

    fn shapes(&self, axis: ValueAxis) -> Vec<Element> {
        let most = if self.is_small { SMALL_POINTS_MAX } else { POINTS_MAX };
        let points = thinned(&self.points, most);
        let of_band = |band: usize| {
            let height = |values: &Vec<u64>| match self.shape {
                Shape::Stacked => values[..=band].iter().sum(),
                Shape::Lines => values[band],
            };
            let heights = points.iter().map(|(at, values)| {
                let y = |value: u64| HEIGHT - scaled(value, axis.end(), HEIGHT);
                (scaled(*at, self.end_ns, WIDTH), values.as_ref().map(height).map(y))
            });
            let (name, class) = &self.bands[band];
            let (class, d) = match self.shape {
                Shape::Stacked => (format!("area {class}"), area(heights)),
                Shape::Lines => (format!("line {class}"), line(heights)),
            };
            let shape = element("path").class(class).with("d", d);
            element("g").child(element("title").text(name)).child(shape)
        };
        // The highest area comes first, so that the others cover what is not its own.
        (0..self.bands.len()).rev().map(of_band).collect()
    }

    fn table(&self) -> Element {
        let cell = |text: String| element("td").text(text);
        let names =
            self.bands.iter().map(|(name, _)| element("th").with("scope", "col").text(name));
        let head = element("tr").child(element("th").with("scope", "col").text("after"));
        let row = |(at, values): &ChartPoint| {
            let values = match values {
                Some(values) => values.iter().map(|&it| self.quantity.label(it)).collect(),
                None => vec!["-".to_owned(); self.bands.len()],
            };
            let time = element("th").with("scope", "row").text(clock(*at));
            element("tr").child(time).children(values.into_iter().map(cell))
        };
        let rows = thinned(&self.points, ROWS_MAX);
        let table = element("table").child(element("thead").child(head.children(names)));
        let table = table.child(element("tbody").children(rows.into_iter().map(row)));
        let scroll = element("div").class("scroll").child(table);
        element("details").child(element("summary").text("as a table")).child(scroll)
    }
}

/// An SVG for labels, which the table has for those who cannot see it.
fn hidden(class: &str) -> Element {
    element("svg").class(class).with("aria-hidden", "true")
}

/// Returns the points, or as many of them with the first and the last.
fn thinned(points: &[ChartPoint], most: usize) -> Vec<&ChartPoint> {
    let last = points.len().saturating_sub(1);
    match points.len() <= most {
        true => points.iter().collect(),
        false => (0..most).map(|index| &points[index * last / (most - 1)]).collect(),
    }
}

fn scaled(value: u64, whole: u64, to: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(to) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(to).min(to)
}

fn thousandths(at_ns: u64, end_ns: u64) -> u64 {
    scaled(at_ns, end_ns, 1000)
}

/// Returns how far below the top of a plot a value is.
fn height(value: u64, axis: ValueAxis) -> String {
    percent(1000 - scaled(value, axis.end(), 1000))
}

fn percent(thousandths: u64) -> String {
    format!("{}.{}%", thousandths / 10, thousandths % 10)
}

type PlotPoint = (u64, Option<u64>);

/// A line that is interrupted where nothing is known.
fn line(points: impl Iterator<Item = PlotPoint>) -> String {
    let mut path = String::new();
    let mut is_on = false;
    for (x, y) in points {
        if let Some(y) = y {
            let command = if is_on { 'L' } else { 'M' };
            path += &format!("{command}{x} {y}");
        }
        is_on = y.is_some();
    }
    path
}

/// The area below a line. A single value is a narrow bar, as nothing is known beside it.
fn area(points: impl Iterator<Item = PlotPoint>) -> String {
    let mut known: Vec<_> = points.filter_map(|(x, y)| Some((x, y?))).collect();
    if let [(x, y)] = known[..] {
        let x = x.min(WIDTH - BAR_WIDTH);
        known = vec![(x, y), (x + BAR_WIDTH, y)];
    }
    let (Some((first, _)), Some((last, _))) = (known.first(), known.last()) else {
        return String::new();
    };
    let steps: String = known.iter().map(|(x, y)| format!("L{x} {y}")).collect();
    format!("M{first} {HEIGHT}{steps}L{last} {HEIGHT}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<ChartPoint>) -> TimeChart<'static> {
        let bands = vec![("node 0".to_owned(), "n0"), ("node 1".to_owned(), "n1")];
        TimeChart {
            id: "memory".to_owned(),
            title: "Memory".to_owned(),
            quantity: Quantity::Bytes,
            shape: Shape::Stacked,
            bands,
            points,
            end_ns: 10_000_000_000,
            is_small: false,
            marks: &[],
        }
    }

    /// Goal: areas lie on each other: of 3 + 1 bytes on an axis to 4, the upper one begins at the
    /// top, the lower one a quarter below it.
    #[test]
    fn areas_are_stacked() {
        let chart = chart(vec![(0, Some(vec![3, 1])), (10_000_000_000, Some(vec![3, 1]))]);
        let figure = chart.figure().to_string();
        let upper = figure.find("M0 1000L0 0L2000 0L2000 1000Z").expect("node 1");
        let lower = figure.find("M0 1000L0 250L2000 250L2000 1000Z").expect("node 0");
        assert!(upper < lower, "the lower area covers the upper one");
    }

    /// Goal: without values there is a chart all the same, with axes.
    #[test]
    fn nothing_is_drawn_of_nothing() {
        for points in [Vec::new(), vec![(0, None)]] {
            let figure = chart(points).figure().to_string();
            assert!(roxmltree::Document::parse(&figure).is_ok(), "{figure}");
            assert!(figure.contains("10 s"), "{figure}");
        }
    }

    /// Goal: a line is interrupted where nothing is known.
    #[test]
    fn lines_have_gaps() {
        let points = [(0, Some(5)), (1, Some(6)), (2, None), (3, Some(7))];
        assert_eq!(line(points.into_iter()), "M0 5L1 6M3 7");
    }

    /// Goal: a single value is seen, at the end of the axis, too.
    #[test]
    fn single_values_are_bars() {
        assert_eq!(area([(0, Some(5))].into_iter()), "M0 1000L0 5L16 5L16 1000Z");
        assert_eq!(area([(2000, Some(5))].into_iter()), "M1984 1000L1984 5L2000 5L2000 1000Z");
    }

    /// Goal: of many points few are drawn, the first and the last among them.
    #[test]
    fn many_points_are_thinned() {
        let points: Vec<ChartPoint> = (0..10_000).map(|at| (at, Some(vec![at]))).collect();
        let kept: Vec<u64> = thinned(&points, 9).into_iter().map(|(at, _)| *at).collect();
        assert_eq!((kept.len(), kept[0], kept[8]), (9, 0, 9_999));
    }
}
