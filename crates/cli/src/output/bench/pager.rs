//! Results of `nodeward bench pager`, as text and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use nodeward_model::units::{format_bytes, format_ns};
use nodeward_proof::{
    ArrivalRatio, BenchRow, Column, Findings, HugeArrivalCell, MeasurePlan, MemcpyCell, SoakReport,
    StallsReport, StepTimeShares, TimeQuantiles,
};
use serde_json::{Value, json};

use super::{between, threads};
use crate::output::plot::{self, BarChart, ChartBar};

/// Formats the measurement for people.
pub fn text(plan: &MeasurePlan, rows: &[BenchRow]) -> String {
    let mut text = format!(
        "region of {}, {}\n\
         ratios: speed against memcpy(3) and the fastest copy with as many threads, in turns\n\
         limit: the kernel's calls alone, and time as a multiple of theirs\n",
        format_bytes(plan.bytes as u64),
        between(plan.nodes),
    );
    for row in rows {
        text += &row_text(plan, row);
    }
    let mut findings = Findings::default();
    rows.iter().for_each(|row| findings.add(&row.findings));
    let moved = rows.iter().flat_map(|row| &row.cells).map(|cell| cell.moved_bytes).sum();
    text + "\n" + &findings_text(&findings, moved, plan.seed)
}

/// Formats the measurement for programs.
pub fn json(plan: &MeasurePlan, rows: &[BenchRow]) -> Value {
    json!({
        "schema": "nodeward.bench-pager/1",
        "region_bytes": plan.bytes,
        "nodes": plan.nodes,
        "seed": plan.seed,
        "rows": rows,
    })
}

/// Draws the ratios as SVG.
pub fn svg(rows: &[BenchRow]) -> Result<String> {
    let bar = |(page, cell): (&str, &MemcpyCell)| {
        let supply = column(cell.column).split(", ").map(str::to_owned);
        ChartBar {
            value: cell.ratio,
            value_label: format!("{:.2}", cell.ratio),
            colour: cell.column as usize,
            labels: [format!("{page}, k={}", cell.lanes)].into_iter().chain(supply).collect(),
        }
    };
    let cells = rows.iter().flat_map(|row| row.cells.iter().map(|cell| (row.page, cell)));
    let title = "nodeward bench pager: speed against memcpy".to_owned();
    plot::svg(&[BarChart { title, unit: "ratio", bars: cells.map(bar).collect() }], &[])
}

/// Formats a soak for people.
pub fn soak_text(report: &SoakReport) -> String {
    let mut text = format!(
        "moved {} in {} ({}/s), by {}: {} migrations in {} regions\n",
        format_bytes(report.moved_bytes),
        format_ns(report.took_ns),
        format_bytes(per_s(report.moved_bytes, report.took_ns)),
        report.backend,
        report.migrations,
        report.regions,
    );
    let _ = writeln!(
        text,
        "  {} more left out for touches to pull; {} pages written, {} read, every word checked",
        format_bytes(report.lazy_bytes),
        report.pages_written,
        report.pages_read,
    );
    if let Some(why) = &report.no_huge_pages {
        let _ = writeln!(text, "  no huge pages: {why}");
    }
    for (reason, pages) in &report.account.skipped {
        let _ = writeln!(text, "  stayed behind: {pages} pages, {reason}");
    }
    text += &format!("{}\n", waits_text(&report.stalls));
    text + &findings_text(&report.findings, report.moved_bytes, report.seed)
}

/// Formats a soak for programs.
pub fn soak_json(report: &SoakReport) -> Value {
    json!({ "schema": "nodeward.bench-pager-soak/1", "soak": report })
}

fn row_text(plan: &MeasurePlan, row: &BenchRow) -> String {
    let mut text = format!("\npages of {}", if row.page == "4k" { "4 KiB" } else { "2 MiB" });
    if let Some(backend) = row.backend {
        let _ = write!(text, ", by {backend}, copied by {}", row.copier.unwrap_or("the kernel"));
    }
    text.push('\n');
    if let Some(why) = &row.why {
        let _ = writeln!(text, "  {why}");
    }
    if !row.cells.is_empty() {
        text += &table(&row.cells);
        text += &shares(&row.cells);
        row.cells.iter().for_each(|cell| text += &concurrent_text(cell));
    }
    text + &extras_text(plan, row)
}

/// Formats the ratios.
fn table(cells: &[MemcpyCell]) -> String {
    let mut text = format!(
        "  {:<24}{:>8}{:>8}{:>9}{:>13}{:>13}{:>13} {:<11}{:>9}\n",
        "DESTINATION PAGES",
        "THREADS",
        "RATIO",
        "FASTEST",
        "SPEED",
        "MEMCPY",
        "FASTEST",
        "COPY",
        "STAYED"
    );
    for cell in cells {
        let rate = |per_s| format!("{}/s", format_bytes(per_s));
        let _ = writeln!(
            text,
            "  {:<24}{:>8}{:>8.2}{:>9.2}{:>13}{:>13}{:>13} {:<11}{:>9}",
            column(cell.column),
            cell.lanes,
            cell.ratio,
            cell.ratio_fastest,
            rate(cell.bytes_per_s),
            rate(cell.memcpy_bytes_per_s),
            rate(cell.fastest_bytes_per_s),
            cell.fastest,
            format_bytes(cell.left_bytes),
        );
    }
    text
}

/// Formats the shares of time.
fn shares(cells: &[MemcpyCell]) -> String {
    let mut text = format!(
        "  {:<24}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>12}{:>13}{:>8}\n",
        "TIME OF THREADS, IN %",
        "THREADS",
        "UNMAP",
        "COPY",
        "MAP",
        "SUPPLY",
        "REST",
        "LONGEST",
        "LIMIT",
        "TIMES"
    );
    for cell in cells {
        let StepTimeShares { unmap, copy, map, supply, rest } = cell.spent;
        let _ = write!(text, "  {:<24}{:>8}", column(cell.column), cell.lanes);
        for share in [unmap, copy, map, supply, rest] {
            let _ = write!(text, "{:>8.0}", share * 100.0);
        }
        let _ = write!(text, "{:>12}", format_ns(cell.longest_hold_ns));
        let limit = cell.bare.as_ref().map_or_else(String::new, |bare| {
            format!("{:>11}/s{:>8.2}", format_bytes(bare.bytes_per_s), bare.ratio)
        });
        let _ = writeln!(text, "{limit}");
    }
    text
}

/// Formats the speed and waits of the threads beside a migration.
fn concurrent_text(cell: &MemcpyCell) -> String {
    let (Some(writer), Some(stalls)) = (cell.writer, &cell.stalls) else { return String::new() };
    let mut text = format!(
        "  beside {}: the writer keeps {:.0} % of its rate ({:.0} of {:.0} pages/s)\n",
        threads(cell.lanes),
        writer.share * 100.0,
        writer.moving_pages_per_s,
        writer.alone_pages_per_s,
    );
    if let Some(ratio) = cell.ratio_beside {
        let _ = writeln!(
            text,
            "    against the fastest copy beside the same writer and reader: {ratio:.2}"
        );
    }
    let _ = writeln!(text, "    {}", waits_text(stalls));
    text
}

fn waits_text(stalls: &StallsReport) -> String {
    let TimeQuantiles { count, p50_ns, p99_ns, p999_ns, max_ns } = stalls.waits;
    let queued = format_ns(stalls.waits_with_queue.p99_ns);
    format!(
        "{count} of {} touches waited: p50 {}, p99 {} ({queued} with the line for a CPU), \
         p99.9 {}, max {}",
        stalls.touches.count,
        format_ns(p50_ns),
        format_ns(p99_ns),
        format_ns(p999_ns),
        format_ns(max_ns),
    )
}

fn extras_text(plan: &MeasurePlan, row: &BenchRow) -> String {
    let mut text = String::new();
    if let Some(lanes) = &row.lanes {
        let _ =
            writeln!(text, "  {}: {:.2} times as fast as one", threads(lanes.lanes), lanes.ratio);
    }
    if let Some(lazy) = &row.lazy {
        let _ = writeln!(
            text,
            "  lazy, pulled by one thread that touches everything: {:.2} of eager ({}/s of {}/s)",
            lazy.ratio,
            format_bytes(lazy.bytes_per_s),
            format_bytes(lazy.eager_bytes_per_s),
        );
    }
    if let Some(stall) = &row.stall {
        let _ = writeln!(
            text,
            "  with a stall budget of {} ({}): {:.2} of the speed without, {}/s; {} at p99\n    {}",
            format_ns(u64::try_from(plan.stall.as_nanos()).unwrap_or(u64::MAX)),
            threads(stall.lanes),
            stall.ratio,
            format_bytes(stall.bytes_per_s),
            if stall.kept { "kept" } else { "not kept" },
            waits_text(&stall.stalls),
        );
    }
    if let Some(vmas) = row.vmas {
        let _ = writeln!(
            text,
            "  mappings: {} before, {} at most while parts moved ({} more)",
            vmas.before, vmas.peak, vmas.more
        );
    }
    if let Some(huge) = &row.huge_arrival {
        text += &huge_arrival_text(huge);
    }
    for kernel in &row.kernel {
        let _ = writeln!(
            text,
            "  {}, {}: {:.2} times as fast as move_pages(2) ({}/s against {}/s)",
            kernel.supply,
            threads(kernel.lanes),
            kernel.ratio,
            format_bytes(kernel.bytes_per_s),
            format_bytes(kernel.kernel_bytes_per_s),
        );
    }
    text
}

fn huge_arrival_text(huge: &HugeArrivalCell) -> String {
    let of = |arrival: &ArrivalRatio| match arrival.of_huge_pages() {
        Some(ratio) => format!(
            "{ratio:.2} times as fast ({}/s of {}/s)",
            format_bytes(arrival.bytes_per_s),
            format_bytes(arrival.one_way_bytes_per_s)
        ),
        None => {
            format!("{} of {} blocks did", arrival.arrived, arrival.arrived + arrival.fell_back)
        }
    };
    format!(
        "  arriving as huge pages, one thread, against fresh base pages\n    recycled: {}\n    \
         fresh: {}\n    where there are none: {:.2} of the speed\n",
        of(&huge.kept),
        of(&huge.fresh),
        huge.without.ratio,
    )
}

fn findings_text(findings: &Findings, moved_bytes: u64, seed: u64) -> String {
    let mut text = format!(
        "lost writes: {}, torn reads: {}, of {} moved (seed {seed})\n",
        findings.lost_writes,
        findings.torn_reads,
        format_bytes(moved_bytes),
    );
    if let Some(first) = findings.first {
        let _ = writeln!(text, "  the first: {first}");
    }
    text
}

fn column(column: Column) -> &'static str {
    match column {
        Column::OneWay => "one-way",
        Column::RecycledWriter => "recycled, with a writer",
        Column::RecycledAlone => "recycled",
    }
}

fn per_s(bytes: u64, ns: u64) -> u64 {
    u64::try_from(u128::from(bytes) * 1_000_000_000 / u128::from(ns.max(1))).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
