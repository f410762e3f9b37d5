//! Output of `nodeward pcp tune`, `pcp advise` and `pcp restore`.

use std::fmt::Write as _;

use nodeward_model::units::{format_bytes, format_ns};
use serde_json::{Value, json};

use super::HIGH_FRACTION;
use crate::results::{CpuListUse, SettingEnd, TuningAdvice, TuningRound};

/// Says how a change of the setting ended.
pub fn setting_end(ended: SettingEnd) -> String {
    match ended {
        SettingEnd::Restored(value) => format!("{HIGH_FRACTION} is {value} again"),
        SettingEnd::Changed(value) => {
            format!("somebody set {HIGH_FRACTION} to {value} meanwhile; it stays so")
        }
        SettingEnd::OfEarlierBoot => {
            format!("{HIGH_FRACTION} was set in an earlier boot; there is nothing to restore")
        }
    }
}

/// Formats a period of the tuner for programs.
pub fn round_json(round: &TuningRound, page_bytes: u64) -> Value {
    let mut value = json!(round);
    value["schema"] = json!("nodeward.pcp-tune/1");
    value["page_bytes"] = json!(page_bytes);
    value
}

/// Formats a change of the setting for people, and why it was made.
pub fn round_line(round: &TuningRound, page_bytes: u64) -> String {
    let TuningRound { before_fraction, chosen_fraction, .. } = round;
    let verb = if round.acts { "set" } else { "would set" };
    let mut line = format!("{verb} high_fraction from {before_fraction} to {chosen_fraction}: ");
    match (round.is_memory_short, round.decider()) {
        (true, _) => line += "memory is short",
        (false, Some(cpu)) => {
            let _ = write!(
                line,
                "CPU {} allocates and frees {} pages in turn; lists may hold {} more",
                cpu.cpu,
                cpu.depth_pages,
                format_bytes(round.stranded_pages.saturating_mul(page_bytes))
            );
        }
        (false, None) => line += "no CPU needs longer lists",
    }
    line + "\n"
}

/// Formats advice for programs.
pub fn advice_json(advice: &TuningAdvice, page_bytes: u64) -> Value {
    let cpu = |cpu: &CpuListUse| {
        let mut value = json!(cpu);
        value["advised_high_pages"] = json!(advice.advised_high(cpu));
        value["saved_visits"] = json!(advice.saved_visits(cpu));
        value
    };
    json!({
        "schema": "nodeward.pcp-advice/1",
        "page_bytes": page_bytes,
        "self_tuning": advice.self_tuning.name(),
        "high_fraction": advice.high_fraction,
        "watched_ns": advice.watched_ns,
        "missed_events": advice.missed_events,
        "advised_fraction": advice.advised_fraction,
        "stranded_pages": advice.stranded_pages,
        "cpus": advice.cpus.iter().map(cpu).collect::<Vec<_>>(),
    })
}

/// Formats advice for people: a line for each CPU, and the one setting for all.
pub fn advice_text(advice: &TuningAdvice, page_bytes: u64) -> String {
    let mut text = format!("in {}, by CPU:\n", format_ns(advice.watched_ns));
    text += " CPU  ALLOCATED      FREED    DEPTH   VISITS  DEFAULT   WANTED    SAVES\n";
    for cpu in &advice.cpus {
        let _ = writeln!(
            text,
            "{:>4} {:>10} {:>10} {:>8} {:>8} {:>8} {:>8} {:>8}",
            cpu.cpu,
            cpu.allocated_pages,
            cpu.freed_pages,
            cpu.depth_pages,
            cpu.visits(),
            cpu.default_high_pages,
            cpu.wanted_high_pages,
            cpu.saved_visits(cpu.wanted_high_pages),
        );
    }
    text + &advised(advice, page_bytes) + &missed(advice)
}

/// Says what the one setting would bring.
fn advised(advice: &TuningAdvice, page_bytes: u64) -> String {
    let Some(fraction) = advice.advised_fraction else {
        return "\nNo CPU needs longer lists than it has by default.\n".to_owned();
    };
    let sum =
        |of: &dyn Fn(&CpuListUse) -> u64| advice.cpus.iter().map(of).fold(0, u64::saturating_add);
    let visits = sum(&CpuListUse::visits);
    let saved = sum(&|cpu| advice.saved_visits(cpu));
    format!(
        "\n{HIGH_FRACTION}={fraction} would save about {saved} of {visits} visits.\nAll lists may \
         then hold {} more than by default.\n",
        format_bytes(advice.stranded_pages.saturating_mul(page_bytes))
    )
}

fn missed(advice: &TuningAdvice) -> String {
    match advice.missed_events {
        0 => String::new(),
        missed => format!("{missed} events were not counted, because they interrupted others.\n"),
    }
}

#[cfg(test)]
mod tests {
    use nodeward_linux::page_lists::SelfTuning;
    use nodeward_model::CpuId;
    use nodeward_policy::pcp::SplitZone;

    use super::*;

    fn cpu(cpu: u32, depth: u32) -> CpuListUse {
        CpuListUse {
            cpu: CpuId(cpu),
            allocated_pages: 655_360,
            freed_pages: 655_000,
            alloc_depth_pages: i64::from(depth) + 100,
            free_depth_pages: i64::from(depth),
            depth_pages: depth,
            refills: 6_000,
            drains: 400,
            wanted_high_pages: u64::from(depth).max(6852),
            default_high_pages: 6852,
            zone: SplitZone { managed_pages: 245_726, cpus: 1, batch_pages: 63 },
        }
    }

    fn round(chosen_fraction: u32, depth: u32) -> TuningRound {
        TuningRound {
            round: 3,
            elapsed_ns: 1_000_000_000,
            acts: true,
            original_fraction: 0,
            before_fraction: 20,
            chosen_fraction,
            is_memory_short: false,
            stranded_pages: 20_000,
            missed_events: 0,
            is_counted: true,
            decided_by: (depth > 6852).then_some(CpuId(1)),
            cpus: vec![cpu(0, 90), cpu(1, depth)],
        }
    }

    fn advice(depth: u32, advised_fraction: Option<u32>) -> TuningAdvice {
        TuningAdvice {
            self_tuning: SelfTuning::Absent,
            high_fraction: Some(0),
            watched_ns: 10_000_000_000,
            cpus: vec![cpu(0, 90), cpu(1, depth)],
            advised_fraction,
            stranded_pages: if advised_fraction.is_some() { 20_000 } else { 0 },
            missed_events: 2,
        }
    }

    /// Goal: each change has its reason, and says whether it was made or only told.
    #[test]
    fn changes_have_reasons() {
        let lines = [
            round(14, 16_384),
            round(0, 90),
            TuningRound { is_memory_short: true, ..round(0, 16_384) },
            TuningRound { acts: false, ..round(14, 16_384) },
        ];
        let lines: String = lines.iter().map(|round| round_line(round, 4096)).collect();
        insta::assert_snapshot!(lines);
        let ends = [SettingEnd::Restored(0), SettingEnd::Changed(64), SettingEnd::OfEarlierBoot];
        insta::assert_snapshot!("ends", ends.map(setting_end).join("\n"));
    }

    /// Goal: the JSON of a period keeps its shape.
    #[test]
    fn a_period_for_programs() {
        let value = round_json(&round(14, 16_384), 4096);
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }

    /// Goal: advice tells each CPU, the setting that does for all, and what that costs; also that
    /// there is nothing to advise.
    #[test]
    fn advice_for_people() {
        insta::assert_snapshot!("advice", advice_text(&advice(16_384, Some(14)), 4096));
        insta::assert_snapshot!("no_advice", advice_text(&advice(90, None), 4096));
    }

    /// Goal: the JSON of advice keeps its shape.
    #[test]
    fn advice_for_programs() {
        let value = advice_json(&advice(16_384, Some(14)), 4096);
        insta::assert_snapshot!(serde_json::to_string_pretty(&value).unwrap());
    }
}
