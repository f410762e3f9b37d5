//! Values that can be typed as an argument or written in a file, in the same words.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use nodeward_agent::limits::{METRICS_PROCESSES_MAX, MOVES_MAX};
use nodeward_balancer::{AccessChoice as Access, RivalMode};
use nodeward_machine::AccessSourceKind;
use nodeward_model::units::{parse_duration_ns, parse_rate};
use nodeward_model::{Escape as _, Name, Nodemask};
use nodeward_mover::Jobs;
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

use crate::message::deprecated::report_deprecated;

/// Number of workers: a number, or `auto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobsChoice(pub Jobs);

/// Bytes per second, or `unlimited`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateChoice(pub Option<u64>);

/// Nanoseconds, or `unlimited`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StallChoice(pub Option<u64>);

/// Nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeChoice(pub u64);

/// A set of nodes, which may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodesChoice(pub Nodemask);

/// A nice value, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NiceChoice(pub Option<i8>);

/// A boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch(pub bool);

/// The behaviour towards other balancers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RivalsChoice(pub RivalMode);

/// The source of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessSourceChoice(pub Access);

/// An absolute path, or `off`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SocketChoice(pub Option<PathBuf>);

/// An absolute path that ends in `.prom`, or `off`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextfileChoice(pub Option<PathBuf>);

/// The mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeChoice(pub u32);

/// The group of a file by name or number, or `none`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupChoice(pub Option<String>);

/// A number of moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovesChoice(pub usize);

/// A number of processes that metrics name, which may be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetricsProcessesChoice(pub u8);

/// A word of a list: a name, or the number of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListItem(String);

/// Words: an array in a file, with commas between them elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameList(pub Vec<Name>);

/// What brings threads home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchedulerChoice {
    /// Nudges: the scheduler of the kernel places threads, and strays are brought back.
    #[default]
    Nudge,
    /// A scheduler of sched_ext that knows the homes.
    Bpf,
}

/// Whether page lists are tuned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageListsChoice {
    /// They are left as they are.
    #[default]
    Off,
    /// Lists hold what their CPUs allocate and free in turn.
    Tune,
}

impl RivalsChoice {
    /// Returns the choice. An old word is reported once.
    pub fn mode(self) -> RivalMode {
        if self.0 == RivalMode::Ignore {
            let old = format!("balance.rivals = {OLD_RIVALS_WORD}");
            report_deprecated(&old, "cooperate or take-over");
        }
        self.0
    }
}

impl NameList {
    /// Splits words at commas.
    pub fn of(words: &[u8]) -> Self {
        let words = words.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        Self(words.filter(|word| !word.is_empty()).map(Name::from).collect())
    }
}

/// A value of `balance.rivals` that is still taken.
const OLD_RIVALS_WORD: &str = "ignore";

const JOBS_MAX: u32 = 1024;
/// The smallest page of any kernel: a smaller number was meant to have a unit.
const RATE_MIN: u64 = 4096;
const UNLIMITED: &str = "unlimited";
const OFF: &str = "off";
const NONE: &str = "none";

impl Default for JobsChoice {
    fn default() -> Self {
        Self(Jobs::Auto)
    }
}

impl FromStr for JobsChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<u32>() {
            Ok(jobs @ 1..=JOBS_MAX) => Ok(Self(Jobs::Fixed(jobs))),
            _ if text == "auto" => Ok(Self(Jobs::Auto)),
            _ => Err(format!("'{text}' is not a number from 1 to {JOBS_MAX}, nor auto")),
        }
    }
}

impl FromStr for RateChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let has_no_unit =
            |text: &str| text.trim_end_matches("/s").ends_with(|c: char| c.is_ascii_digit());
        limit(text, |text| match parse_rate(text) {
            Ok(0..RATE_MIN) if has_no_unit(text) => Err(format!(
                "'{text}' is less than a page a second, and has no unit; it is not a rate such as \
                 500MB/s"
            )),
            rate => rate.map_err(|error| error.to_string()),
        })
        .map(Self)
    }
}

impl FromStr for StallChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        limit(text, |text| parse_duration_ns(text).map_err(|error| error.to_string())).map(Self)
    }
}

impl FromStr for TimeChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration_ns(text).map(Self).map_err(|error| error.to_string())
    }
}

impl FromStr for NodesChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Nodemask::new()));
        }
        let nodes = text.parse::<Nodemask>().ok().filter(|nodes| !nodes.is_empty());
        let wrong = || format!("'{}' is neither nodes such as 1 or 2-3,5 nor none", text.escaped());
        nodes.map(Self).ok_or_else(wrong)
    }
}

impl FromStr for Switch {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |_| format!("'{text}' is neither true nor false");
        text.parse().map(Self).map_err(wrong)
    }
}

impl FromStr for RivalsChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "stand-back" => Ok(Self(RivalMode::StandBack)),
            "cooperate" => Ok(Self(RivalMode::Cooperate)),
            "take-over" => Ok(Self(RivalMode::TakeOver)),
            OLD_RIVALS_WORD => Ok(Self(RivalMode::Ignore)),
            _ => Err(format!("'{text}' is none of stand-back, cooperate and take-over")),
        }
    }
}

impl FromStr for SocketChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            OFF => Ok(Self(None)),
            _ if text.starts_with('/') => Ok(Self(Some(text.into()))),
            _ => Err(format!("'{text}' is neither an absolute path nor {OFF}")),
        }
    }
}

impl FromStr for TextfileChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            OFF => Ok(Self(None)),
            _ if text.starts_with('/') && text.ends_with(".prom") => Ok(Self(Some(text.into()))),
            _ => Err(format!(
                "'{}' is neither {OFF} nor an absolute path that ends in .prom, as node_exporter \
                 wants it",
                text.escaped()
            )),
        }
    }
}

impl FromStr for ModeChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mode = u32::from_str_radix(text, 8).ok().filter(|&mode| mode <= 0o777);
        mode.map(Self).ok_or_else(|| format!("'{text}' is no mode of a file, such as 0660"))
    }
}

impl FromStr for GroupChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self((text != NONE).then(|| text.to_owned())))
    }
}

impl FromStr for MovesChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let moves = text.parse().ok().filter(|moves| (1..=MOVES_MAX).contains(moves));
        moves.map(Self).ok_or_else(|| format!("'{text}' is not a number from 1 to {MOVES_MAX}"))
    }
}

impl FromStr for NiceChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == NONE {
            return Ok(Self(None));
        }
        let nice = text.parse().ok().filter(|nice| (-20..=19).contains(nice));
        let wrong =
            || format!("'{}' is neither {NONE} nor a number from -20 to 19", text.escaped());
        nice.map(|nice| Self(Some(nice))).ok_or_else(wrong)
    }
}

impl FromStr for MetricsProcessesChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let count = text.parse().ok().filter(|&count| usize::from(count) <= METRICS_PROCESSES_MAX);
        let wrong = || format!("'{text}' is not a number from 0 to {METRICS_PROCESSES_MAX}");
        count.map(Self).ok_or_else(wrong)
    }
}

/// The sources that tell which thread uses which page.
const ACCESS_SOURCES: [AccessSourceKind; 4] = [
    AccessSourceKind::Registers,
    AccessSourceKind::SoftDirty,
    AccessSourceKind::Faults,
    AccessSourceKind::Perf,
];

impl FromStr for SchedulerChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "nudge" => Ok(Self::Nudge),
            "bpf" => Ok(Self::Bpf),
            _ => Err(format!("'{text}' is neither nudge nor bpf")),
        }
    }
}

impl FromStr for PageListsChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            OFF => Ok(Self::Off),
            "tune" => Ok(Self::Tune),
            _ => Err(format!("'{text}' is neither tune nor off")),
        }
    }
}

impl FromStr for AccessSourceChoice {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let named = ACCESS_SOURCES.into_iter().find(|kind| kind.name() == text);
        match (text, named) {
            ("auto", _) => Ok(Self(Access::Auto)),
            (OFF, _) => Ok(Self(Access::Off)),
            (_, Some(kind)) => Ok(Self(Access::Only(kind))),
            _ => {
                let names = ACCESS_SOURCES.map(AccessSourceKind::name).join(", ");
                Err(format!("'{text}' is none of auto, {names}, off"))
            }
        }
    }
}

impl FromStr for ListItem {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self(text.to_owned()))
    }
}

impl FromStr for NameList {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Self::of(text.as_bytes()))
    }
}

/// Creates a parser of a name, which need not be UTF-8.
pub fn name_parser() -> impl TypedValueParser<Value = Name> {
    OsStringValueParser::new().map(Name::from)
}

fn limit(text: &str, parse: impl Fn(&str) -> Result<u64, String>) -> Result<Option<u64>, String> {
    if text == UNLIMITED {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|error| format!("{error}, nor {UNLIMITED}"))
}

/// Deserializes a string, or a bare number, in the words of the command line.
struct FromStrVisitor<T>(&'static str, std::marker::PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for FromStrVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        number.to_string().parse().map_err(E::custom)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<T, E> {
        value.to_string().parse().map_err(E::custom)
    }
}

macro_rules! deserialize_as_typed {
    ($($name:ty: $expected:literal),*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(FromStrVisitor($expected, std::marker::PhantomData))
            }
        }
    )*};
}

deserialize_as_typed! {
    JobsChoice: "a number of workers or \"auto\"",
    RateChoice: "a rate such as \"500MB/s\" or \"unlimited\"",
    StallChoice: "a time such as \"1ms\" or \"unlimited\"",
    TimeChoice: "a time such as \"1s\"",
    Switch: "true or false",
    NodesChoice: "nodes such as \"2-3\", or \"none\"",
    ListItem: "a name, or the number of a user",
    AccessSourceChoice: "\"auto\", a source of accesses, or \"off\"",
    RivalsChoice: "\"stand-back\", \"cooperate\" or \"take-over\"",
    SchedulerChoice: "\"nudge\" or \"bpf\"",
    PageListsChoice: "\"tune\" or \"off\"",
    SocketChoice: "an absolute path, or \"off\"",
    TextfileChoice: "an absolute path that ends in .prom, or \"off\"",
    ModeChoice: "a mode such as \"0660\"",
    GroupChoice: "a group by name or number, or \"none\"",
    MovesChoice: "a number of moves",
    NiceChoice: "a nice value such as \"-10\", or \"none\"",
    MetricsProcessesChoice: "a number of processes"
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = NameList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array such as [\"postgres\", \"java\"]")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<NameList, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<NameList, A::Error> {
        let mut words = Vec::new();
        while let Some(ListItem(word)) = items.next_element()? {
            words.push(word.into());
        }
        Ok(NameList(words))
    }
}

impl<'de> Deserialize<'de> for NameList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: words are parsed as documented.
    #[test]
    fn words() {
        assert_eq!("4".parse(), Ok(JobsChoice(Jobs::Fixed(4))));
        assert_eq!("auto".parse(), Ok(JobsChoice(Jobs::Auto)));
        assert_eq!("1GB/s".parse(), Ok(RateChoice(Some(1_000_000_000))));
        assert_eq!("250us".parse(), Ok(StallChoice(Some(250_000))));
        assert_eq!("unlimited".parse(), Ok(StallChoice(None)));
        assert_eq!("2s".parse(), Ok(TimeChoice(2_000_000_000)));
        assert_eq!("true".parse(), Ok(Switch(true)));
        assert_eq!("2-3".parse(), Ok(NodesChoice("2-3".parse().unwrap())));
        assert_eq!("none".parse(), Ok(NodesChoice(Nodemask::new())));
        for wrong in ["", "x", "1-", "1024"] {
            let error = wrong.parse::<NodesChoice>().unwrap_err();
            assert!(error.ends_with("is neither nodes such as 1 or 2-3,5 nor none"), "{error}");
        }
        let modes = ["stand-back", "cooperate", "take-over", "ignore"].map(str::parse);
        let expected =
            [RivalMode::StandBack, RivalMode::Cooperate, RivalMode::TakeOver, RivalMode::Ignore];
        assert_eq!(modes, expected.map(|mode| Ok(RivalsChoice(mode))));
        assert_eq!("off".parse(), Ok(AccessSourceChoice(Access::Off)));
        let only = AccessSourceChoice(Access::Only(AccessSourceKind::SoftDirty));
        assert_eq!("soft-dirty".parse(), Ok(only));
        assert_eq!("nudge".parse(), Ok(SchedulerChoice::Nudge));
        assert_eq!("bpf".parse(), Ok(SchedulerChoice::Bpf));
        assert_eq!("tune".parse(), Ok(PageListsChoice::Tune));
        assert_eq!("off".parse(), Ok(PageListsChoice::Off));
        assert_eq!("off".parse(), Ok(SocketChoice(None)));
        assert_eq!("/run/x".parse(), Ok(SocketChoice(Some("/run/x".into()))));
        assert_eq!("off".parse(), Ok(TextfileChoice(None)));
        assert_eq!("/m/a.prom".parse(), Ok(TextfileChoice(Some("/m/a.prom".into()))));
        assert_eq!("0660".parse(), Ok(ModeChoice(0o660)));
        assert_eq!("none".parse(), Ok(GroupChoice(None)));
        assert_eq!("16".parse(), Ok(MovesChoice(16)));
        let nice = ["-20", "19", "none"].map(str::parse);
        assert_eq!(nice, [Some(-20), Some(19), None].map(|nice| Ok(NiceChoice(nice))));
        assert_eq!("0".parse(), Ok(MetricsProcessesChoice(0)));
        assert_eq!("100".parse(), Ok(MetricsProcessesChoice(100)));
        let damon = "damon".parse::<AccessSourceChoice>().unwrap_err(); // it knows no threads
        assert_eq!(damon, "'damon' is none of auto, registers, soft-dirty, faults, perf, off");
        assert_eq!("a, b,,".parse(), Ok(NameList(vec!["a".into(), "b".into()])));
    }

    /// Goal: a word with two valid values is refused with both.
    #[test]
    fn mistakes_in_words() {
        assert_eq!("yes".parse::<Switch>().unwrap_err(), "'yes' is neither true nor false");
        let rivals = "fight".parse::<RivalsChoice>().unwrap_err();
        assert_eq!(rivals, "'fight' is none of stand-back, cooperate and take-over");
        let socket = "agent.sock".parse::<SocketChoice>().unwrap_err();
        assert_eq!(socket, "'agent.sock' is neither an absolute path nor off");
        for wrong in ["", "m.prom", "/m/metrics", "/m/\u{1b}[2J"] {
            let error = wrong.parse::<TextfileChoice>().unwrap_err();
            assert!(error.contains("ends in .prom") && !error.contains('\u{1b}'), "{error}");
        }
        for error in ["999", "01777", "-1", "x"].map(|word| word.parse::<ModeChoice>()) {
            assert!(error.unwrap_err().ends_with("such as 0660"));
        }
        assert!("17".parse::<MovesChoice>().unwrap_err().contains("1 to 16"));
        for wrong in ["-21", "20", "-0x1", ""] {
            let error = wrong.parse::<NiceChoice>().unwrap_err();
            assert_eq!(error, format!("'{wrong}' is neither none nor a number from -20 to 19"));
        }
        for wrong in ["101", "-1", "all", ""] {
            let error = wrong.parse::<MetricsProcessesChoice>().unwrap_err();
            assert_eq!(error, format!("'{wrong}' is not a number from 0 to 100"));
        }
        assert!("1".parse::<TimeChoice>().unwrap_err().contains("a time such as"));
        assert!("4095".parse::<RateChoice>().unwrap_err().contains("less than a page"));
        assert_eq!("4096".parse(), Ok(RateChoice(Some(4096))));
        assert_eq!("1KiB/s".parse(), Ok(RateChoice(Some(1024))));
    }

    /// Goal: an error ends with a valid value.
    #[test]
    fn mistakes() {
        for error in [
            "-1".parse::<JobsChoice>().unwrap_err(),
            "0".parse::<JobsChoice>().unwrap_err(),
            "1025".parse::<JobsChoice>().unwrap_err(),
            "0".parse::<RateChoice>().unwrap_err(),
            "1".parse::<StallChoice>().unwrap_err(),
        ] {
            assert!(error.ends_with("nor auto") || error.ends_with("nor unlimited"), "{error}");
        }
    }
}
