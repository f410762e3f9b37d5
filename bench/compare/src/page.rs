//! The documentation page that the command generates.

use std::fmt::Write as _;

use comfy_table::presets::ASCII_MARKDOWN;
use nodeward_experiments::command_lines;
use nodeward_model::units::{format_bytes, format_ns};

use crate::settings::CompareSettings;
use crate::table::CompareTable;
use crate::text::{grid, notes, wrapped};

/// Text above the table.
const HEAD: &str = include_str!("head.md");

/// Formats the page: subject, method, the table, and the command that made it.
pub fn page(settings: &CompareSettings, table: &CompareTable, command: &str) -> String {
    let command = command_lines(command).join(" \\\n    ");
    let mut page = format!("{HEAD}\n    {command}\n\n");
    let _ = writeln!(
        page,
        "Kernel {}; {} repeats; {} and {} passes to a process; caches of {}; a miss at home {}.\n",
        settings.kernel,
        settings.repeats,
        format_bytes(settings.size_bytes),
        settings.passes,
        format_bytes(settings.llc_bytes),
        format_ns(settings.miss_delay_ns),
    );
    for workload in &settings.workloads {
        let about = format!("- `{}`: {}", workload.name, workload.scenario.about);
        let _ = writeln!(page, "{}", wrapped(&about));
    }
    page += "\n";
    for contender in &settings.balancers {
        let _ = writeln!(page, "- `{}`: {}", contender.balancer.name, contender.about);
    }
    let _ = writeln!(page, "\n{}", grid(table, ASCII_MARKDOWN));
    for note in notes(table) {
        let _ = write!(page, "\n{note}.\n");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::sample;

    /// Goal: the page says how it was made, and has the table.
    #[test]
    fn the_page() {
        let (settings, table) = sample();
        let page = page(&settings, &table, "cargo xtask lab compare");
        insta::assert_snapshot!(page.strip_prefix(HEAD).unwrap());
    }
}
