//! Charts of measurements: bars with labels below, and lines over time.

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// Width of a bar with its gap, and of the axis and margins; height of a chart, in pixels.
const BAR_WIDTH: u32 = 90;
const MARGIN: u32 = 120;
const HEIGHT: u32 = 420;
/// Minimum width for the title.
const WIDTH_MIN: u32 = 480;
/// Height of a label line.
const LINE_HEIGHT: i32 = 15;

/// Colours that colour-blind people can distinguish (Okabe and Ito 2008): blue, orange, green,
/// vermilion, sky blue, purple.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(204, 121, 167),
];

/// A bar.
pub struct ChartBar {
    /// Its height.
    pub value: f64,
    /// The label above it.
    pub value_label: String,
    /// The index of its colour.
    pub colour: usize,
    /// The label below it, line by line.
    pub labels: Vec<String>,
}

/// Bars side by side.
pub struct BarChart {
    /// The title.
    pub title: String,
    /// The unit of heights.
    pub unit: &'static str,
    /// The bars.
    pub bars: Vec<ChartBar>,
}

/// A line over time, or over another quantity.
pub struct ChartLine {
    /// Its name.
    pub name: String,
    /// The index of its colour.
    pub colour: usize,
    /// Its points: horizontal position, such as a time in seconds, and height.
    pub points: Vec<(f64, f64)>,
}

/// Lines in one chart.
pub struct LineChart {
    /// The title.
    pub title: String,
    /// The horizontal quantity: seconds, or another name.
    pub x_label: String,
    /// The unit of heights.
    pub unit: &'static str,
    /// The lines.
    pub lines: Vec<ChartLine>,
    /// Marked moments in seconds, each with a label; the label may be empty.
    pub marks: Vec<(f64, String)>,
}

/// Draws charts of bars, and below them charts of lines, as SVG.
pub fn svg(bars: &[BarChart], lines: &[LineChart]) -> Result<String> {
    let most = bars.iter().map(|bars| bars.bars.len()).max().unwrap_or(0);
    let charts = (bars.len() + lines.len()).max(1);
    let width = (u32::try_from(most)? * BAR_WIDTH + MARGIN).max(WIDTH_MIN);
    let size = (width, HEIGHT * u32::try_from(charts)?);
    let mut picture = String::new();
    let root = SVGBackend::with_string(&mut picture, size).into_drawing_area();
    draw(&root, charts, bars, lines).map_err(|error| anyhow!("cannot draw: {error}"))?;
    drop(root);
    Ok(picture)
}

type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type DrawResult = Result<(), Box<dyn std::error::Error>>;
type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

fn draw(root: &Drawing<'_>, charts: usize, bars: &[BarChart], lines: &[LineChart]) -> DrawResult {
    root.fill(&WHITE)?;
    let areas = root.split_evenly((charts, 1));
    for (area, bars) in areas.iter().zip(bars) {
        draw_bars(area, bars)?;
    }
    for (area, lines) in areas[bars.len()..].iter().zip(lines) {
        draw_lines(area, lines)?;
    }
    root.present()?;
    Ok(())
}

/// Draws a chart from zero to a little more than the highest value.
fn chart<'a, 'b>(
    area: &'a Drawing<'b>,
    title: &str,
    right: f64,
    highest: f64,
) -> Result<Chart<'a, 'b>, Box<dyn std::error::Error>> {
    let mut builder = ChartBuilder::on(area);
    builder.caption(title, ("sans-serif", 22)).margin(10);
    builder.x_label_area_size(60).y_label_area_size(60);
    Ok(builder.build_cartesian_2d(0.0..right, 0.0..highest * 1.1)?)
}

fn draw_bars(area: &Drawing<'_>, BarChart { title, unit, bars }: &BarChart) -> DrawResult {
    let highest = bars.iter().map(|bar| bar.value).fold(1.0, f64::max);
    let mut chart = chart(area, title, bars.len().max(1) as f64, highest)?;
    chart.configure_mesh().disable_x_mesh().x_labels(0).y_desc(*unit).draw()?;
    for (place, bar) in bars.iter().enumerate() {
        let (left, right) = (place as f64 + 0.15, place as f64 + 0.85);
        let shape = Rectangle::new([(left, 0.0), (right, bar.value)], colour(bar.colour).filled());
        chart.draw_series([shape])?;
        let write = |line: i32, words: &str, (x, y): (i32, i32)| {
            area.draw(&Text::new(words.to_owned(), (x, y + LINE_HEIGHT * line), ("sans-serif", 15)))
        };
        // The chart counts from the top of the picture, an area from its own top.
        let top = area.get_base_pixel().1;
        let place = |height| {
            let (x, y) = chart.backend_coord(&(left, height));
            (x, y - top)
        };
        write(-1, &bar.value_label, place(bar.value))?;
        let (x, y) = place(0.0);
        for (line, words) in (0..).zip(&bar.labels) {
            write(line, words, (x, y + LINE_HEIGHT / 2))?;
        }
    }
    Ok(())
}

fn draw_lines(area: &Drawing<'_>, chart_of: &LineChart) -> DrawResult {
    let LineChart { title, x_label: across, unit, lines, marks } = chart_of;
    let points = || lines.iter().flat_map(|line| &line.points);
    let (right, highest) =
        points().fold((1e-9, 1.0), |(x, y), point| (f64::max(x, point.0), f64::max(y, point.1)));
    let right = marks.iter().map(|(at, _)| *at).fold(right, f64::max);
    let mut chart = chart(area, title, right, highest)?;
    chart.configure_mesh().x_desc(across).y_desc(*unit).draw()?;
    for (at, words) in marks {
        let line = [(*at, 0.0), (*at, highest * 1.1)];
        chart.draw_series([PathElement::new(line, BLACK.stroke_width(1))])?;
        let (x, y) = chart.backend_coord(&(*at, highest * 1.1));
        let place = (x + 4, y - area.get_base_pixel().1 + 2);
        area.draw(&Text::new(words.clone(), place, ("sans-serif", 13)))?;
    }
    for line in lines {
        let colour = colour(line.colour);
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
    Ok(())
}

fn colour(number: usize) -> RGBColor {
    COLOURS[number % COLOURS.len()]
}
