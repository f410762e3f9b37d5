//! The page that shows both worlds side by side.

use std::fmt::Write as _;

use comfy_table::Table as Grid;
use comfy_table::presets::ASCII_MARKDOWN;
use nodeward_model::units::format_bytes;
use nodeward_runner::MachineCosts;

use crate::measured_costs;
use crate::median_range::MedianRange;
use crate::settings::CompareSettings;
use crate::text::{level, wrapped};
use crate::truth::{Both, Truth, TruthRow};

/// Text above the tables.
const HEAD: &str = include_str!("truth_head.md");
const HEADS: [&str; 8] = [
    "load",
    "balancer",
    "at the end %",
    "90 % after s",
    "pages moved",
    "took s",
    "work",
    "over time",
];

/// Formats the page: the method, the summary, the table, and the command that made it.
pub fn truth_page(
    settings: &CompareSettings,
    truth: &Truth,
    costs: &[MachineCosts],
    command: &str,
) -> String {
    let (all, far) = truth.figures();
    let right = truth.best.iter().filter(|(.., is_right)| *is_right).count();
    let mut page = format!("{HEAD}\n    {command}\n\n");
    let _ = writeln!(
        page,
        "Kernel {}; {} repeats; {} and {} passes of most loads.\n",
        settings.kernel,
        settings.repeats,
        format_bytes(settings.size_bytes),
        settings.passes,
    );
    let _ = writeln!(
        page,
        "**{} of {all} figures are as near as is asked, {far} are not** (bold below). The greatest \
         error of work\nis {:.0} %. The best balancer is named right for {right} of {} loads.\n",
        all - far,
        truth.worst_work() * 100.0,
        truth.best.len(),
    );
    for workload in &settings.workloads {
        let about = format!("- `{}`: {}.", workload.name, workload.scenario.about);
        let _ = writeln!(page, "{}", wrapped(&about));
    }
    let _ = writeln!(page, "\n{}", grid(truth));
    page += &costs_line(costs);
    for (workload, predicted, measured, is_right) in &truth.best {
        if !is_right {
            let _ = writeln!(
                page,
                "\n- `{workload}`: the best is {measured}, and the simulator says {predicted}."
            );
        }
    }
    page
}

/// Formats the costs of the emulated machine; an empty text if none were measured.
fn costs_line(costs: &[MachineCosts]) -> String {
    let shown = |(name, MedianRange { median, least, most }): &(&str, MedianRange)| {
        format!("{name} {median:.0} ({least:.0}-{most:.0})")
    };
    let all: Vec<String> = measured_costs::summary(costs).iter().map(shown).collect();
    if all.is_empty() {
        return String::new();
    }
    let about = format!(
        "- Costs in ns, medians of {} measurements, one before the runs of each load, with the \
         least and the most: {}.",
        costs.len(),
        all.join("; ")
    );
    format!("\n{}\n", wrapped(&about))
}

fn grid(truth: &Truth) -> Grid {
    let mut grid = Grid::new();
    grid.load_preset(ASCII_MARKDOWN).set_header(HEADS);
    for row in &truth.rows {
        grid.add_row(cells(row));
    }
    grid
}

fn cells(row: &TruthRow) -> Vec<String> {
    let maybe = |both: Option<Both>, digits| both.map_or("-".to_owned(), |it| shown(it, digits));
    let [predicted, measured] = &row.parts;
    let bars = |parts: &[Option<f64>]| parts.iter().map(|&part| level(part)).collect::<String>();
    vec![
        row.workload.clone(),
        row.balancer.clone(),
        maybe(row.local, 1),
        maybe(row.to_90_s, 1),
        shown(row.pages, 0),
        plain(row.took_s, 1),
        maybe(row.work, 2),
        format!("{} / {}", bars(predicted), bars(measured)),
    ]
}

/// Formats `predicted / measured`; bold if they are not as near as is asked.
fn shown(both: Both, digits: usize) -> String {
    let text = plain(both, digits);
    if both.is_near { text } else { format!("**{text}**") }
}

fn plain(Both { predicted, measured, .. }: Both, digits: usize) -> String {
    let [predicted, measured] = [predicted, measured].map(|figure| match figure.is_finite() {
        true => format!("{figure:.digits$}"),
        false => "never".to_owned(),
    });
    format!("{predicted} / {measured}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::CompareTable;
    use crate::table::tests::sample;

    /// Goal: what is near is plain, what is not is bold and counted, and a wrong best is named. The
    /// prediction is the measurement with half the work time under the second balancer.
    #[test]
    fn what_is_not_near_is_bold() {
        let (settings, measured) = sample();
        let mut predicted = CompareTable { rows: measured.rows.clone() };
        let far = predicted.rows[1].cells.as_mut().unwrap();
        far.took_s.median /= 2.0;
        far.work.as_mut().unwrap().median *= 2.0;
        let truth = Truth::of(&predicted, &measured, |_| 262_144);
        let (_, not_near) = truth.figures();
        assert_eq!(not_near, 1);
        let costs = [30.0, 32.0].map(measured_costs::tests::sample);
        let page = truth_page(&settings, &truth, &costs, "COMMAND");
        insta::assert_snapshot!(page.replace(HEAD, ""));
    }
}
