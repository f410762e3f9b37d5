//! The table as a picture: a bar for each ratio.

use anyhow::{Result, anyhow};
use nodeward_proof::{Cell, Row};
use plotters::prelude::*;

/// Width of a bar with its gap, and of the axis and margins; height of all, in pixels.
const BAR: u32 = 90;
const MARGIN: u32 = 120;
const HEIGHT: u32 = 420;
/// The title needs so much.
const WIDTH_MIN: u32 = 480;
/// From one line of words to the next.
const LINE: i32 = 15;

/// Blue, orange and green that people who see few colours can tell apart (Okabe and Ito 2008).
const COLOURS: [RGBColor; 3] =
    [RGBColor(0, 114, 178), RGBColor(230, 159, 0), RGBColor(0, 158, 115)];

/// The picture as SVG.
pub fn svg(rows: &[Row]) -> Result<String> {
    let bars: Vec<_> =
        rows.iter().flat_map(|row| row.cells.iter().map(|cell| (row.page, cell))).collect();
    let count = u32::try_from(bars.len().max(1))?;
    let mut picture = String::new();
    draw(&mut picture, &bars, count).map_err(|error| anyhow!("cannot draw: {error}"))?;
    Ok(picture)
}

fn draw(
    picture: &mut String,
    bars: &[(&'static str, &Cell)],
    count: u32,
) -> Result<(), Box<dyn std::error::Error>> {
    let size = ((count * BAR + MARGIN).max(WIDTH_MIN), HEIGHT);
    let root = SVGBackend::with_string(picture, size).into_drawing_area();
    root.fill(&WHITE)?;
    let highest = bars.iter().map(|(_, cell)| cell.ratio).fold(1.0, f64::max) * 1.1;
    let mut chart = ChartBuilder::on(&root)
        .caption("nodeward bench pager: speed against memcpy", ("sans-serif", 22))
        .margin(10)
        .x_label_area_size(60)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..f64::from(count), 0.0..highest)?;
    chart.configure_mesh().disable_x_mesh().x_labels(0).y_desc("ratio").draw()?;
    for (place, (page, cell)) in (0..).zip(bars) {
        let (left, right) = (f64::from(place) + 0.15, f64::from(place) + 0.85);
        let colour = COLOURS[cell.column as usize % COLOURS.len()];
        let bar = Rectangle::new([(left, 0.0), (right, cell.ratio)], colour.filled());
        chart.draw_series([bar])?;
        let write = |line: i32, words: String, (x, y): (i32, i32)| {
            root.draw(&Text::new(words, (x, y + LINE * line), ("sans-serif", 15)))
        };
        let top = chart.backend_coord(&(left, cell.ratio));
        write(-1, format!("{:.2}", cell.ratio), top)?;
        let (x, y) = chart.backend_coord(&(left, 0.0));
        for (line, words) in (0..).zip(words(page, cell)) {
            write(line, words, (x, y + LINE / 2))?;
        }
    }
    root.present()?;
    Ok(())
}

/// What stands below a bar.
fn words(page: &str, cell: &Cell) -> [String; 3] {
    let supply = match super::column(cell.column).split_once(", ") {
        Some((supply, beside)) => [supply, beside],
        None => [super::column(cell.column), ""],
    };
    [format!("{page}, k={}", cell.lanes), supply[0].to_owned(), supply[1].to_owned()]
}
