//! `[balance]`: the processes to balance, and limits on the cost.

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::builder::{OsStringValueParser, TypedValueParser};
use nodeward_balancer::BalanceSettings;
use nodeward_linux::users;
use nodeward_model::{Escape as _, Name, Nodemask, Pid, ProcessFilter};
use nodeward_policy::placement::Rules;
use serde::Deserialize;

use super::values::{
    AccessSourceChoice, GroupChoice, MetricsProcessesChoice, ModeChoice, MovesChoice, NameList,
    NiceChoice, NodesChoice, PageListsChoice, RateChoice, RivalsChoice, SchedulerChoice,
    SocketChoice, StallChoice, Switch, TextfileChoice, TimeChoice, name_parser,
};
use crate::message::help::{AGENT, DECIDED, EXCEPT, PACE, PROCESSES};

/// Settings of the balancer in one layer. The layer below decides what this one leaves out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, clap::Args)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct BalanceLayer {
    /// Time from one round to the next, 100ms or more [default: 1s]
    #[arg(help_heading = PACE, long, value_name = "TIME")]
    pub interval: Option<TimeChoice>,

    /// CPU time per second for observing up to 1,000 threads, and in proportion for more; about
    /// seven times as much while processes are brought home. From 100us to 100ms [default: 3ms]
    #[arg(help_heading = PACE, long, alias = "looking", value_name = "TIME")]
    #[serde(alias = "looking")]
    pub cpu_budget: Option<TimeChoice>,

    /// Memory moved per second in all, or unlimited [default: 4GiB/s]
    #[arg(help_heading = PACE, long, value_name = "RATE")]
    pub budget: Option<RateChoice>,

    /// The same of each process, or unlimited [default: 2GiB/s]
    #[arg(help_heading = PACE, long, value_name = "RATE")]
    pub budget_per_process: Option<RateChoice>,

    /// The longest time for which the kernel may hold pages while it moves them, or unlimited; who
    /// touches them waits [default: 1ms]
    #[arg(help_heading = PACE, long, value_name = "TIME")]
    pub stall: Option<StallChoice>,

    /// Nice value of moves, -20 to 19, or none [default: -10]
    #[arg(help_heading = PACE, long, value_name = "N|none", allow_hyphen_values = true)]
    pub nice: Option<NiceChoice>,

    /// Time within which a memory move must save more than it costs; longer for processes that have
    /// run for long [default: 10s]
    #[arg(help_heading = DECIDED, long, value_name = "TIME")]
    pub horizon: Option<TimeChoice>,

    /// Upper limit of that longer time [default: 60s]
    #[arg(help_heading = DECIDED, long, value_name = "TIME")]
    pub horizon_max: Option<TimeChoice>,

    /// Leave alone who has used less CPU time than this [default: 1s]
    #[arg(help_heading = DECIDED, long, value_name = "TIME")]
    pub run_time_min: Option<TimeChoice>,

    /// Move memory, too; with false only threads [default: true]
    #[arg(help_heading = DECIDED, long, value_name = "true|false")]
    pub move_memory: Option<Switch>,

    /// Keep threads bound to the CPUs of their home [default: false]
    #[arg(help_heading = DECIDED, long, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", value_name = "true|false")]
    pub pin: Option<Switch>,

    /// Bring threads home by nudge or bpf (sched_ext) [default: nudge]
    #[arg(help_heading = DECIDED, long, value_name = "nudge|bpf")]
    pub scheduler: Option<SchedulerChoice>,

    /// Tune page lists of CPUs, as pcp tune does [default: off]
    #[arg(help_heading = DECIDED, long, value_name = "tune|off")]
    pub page_lists: Option<PageListsChoice>,

    /// Beside the kernel's NUMA balancing: stand-back (do nothing), cooperate (what it decided
    /// stands) or take-over (switch it off while this runs) [default: stand-back]
    #[arg(help_heading = DECIDED, long, value_name = "MODE")]
    pub rivals: Option<RivalsChoice>,

    /// Nodes to keep free of threads and memory, or none [default: none]
    #[arg(help_heading = DECIDED, long, value_name = "NODES|none")]
    pub keep_empty: Option<NodesChoice>,

    /// Source of accesses that places pages of wide processes: auto, registers, soft-dirty,
    /// faults, perf or off [default: auto]
    #[arg(help_heading = DECIDED, long, value_name = "SOURCE")]
    pub access: Option<AccessSourceChoice>,

    /// Serve an agent at this absolute path, or off [default: off]
    #[arg(help_heading = AGENT, long, value_name = "PATH|off")]
    pub socket: Option<SocketChoice>,

    /// Mode of that socket [default: 0666]
    #[arg(help_heading = AGENT, long, value_name = "MODE")]
    pub socket_mode: Option<ModeChoice>,

    /// Group of that socket, or none [default: none]
    #[arg(help_heading = AGENT, long, value_name = "GROUP|none")]
    pub socket_group: Option<GroupChoice>,

    /// Moves at a time for each user, 1 to 16 [default: 2]
    #[arg(help_heading = AGENT, long, value_name = "N")]
    pub socket_moves: Option<MovesChoice>,

    /// Rate of moves for each user, or unlimited [default: 1GiB/s]
    #[arg(help_heading = AGENT, long, value_name = "RATE")]
    pub socket_budget: Option<RateChoice>,

    /// Write metrics to this textfile (.prom), or off [default: off]
    #[arg(help_heading = AGENT, long, value_name = "PATH|off")]
    pub textfile: Option<TextfileChoice>,

    /// Name this many processes in metrics, 0 to 100 [default: 0]
    #[arg(help_heading = AGENT, long, value_name = "N")]
    pub metrics_processes: Option<MetricsProcessesChoice>,

    /// Balance processes of these names. A process is balanced if any of the three lists names it;
    /// if all are empty, every process is. On the command line: --name.
    #[arg(skip)]
    pub names: Option<NameList>,

    /// Balance processes of these users, by name or number. On the command line: --user.
    #[arg(skip)]
    pub users: Option<NameList>,

    /// Balance processes of these control groups (version 2) and of those below them. On the
    /// command line: --cgroup.
    #[arg(skip)]
    pub cgroups: Option<NameList>,

    /// Leave processes of these names alone; a list with commas
    #[arg(help_heading = EXCEPT, long, value_name = "NAME,...", value_parser = list())]
    pub except_names: Option<NameList>,

    /// Leave processes of these users alone; a list with commas
    #[arg(help_heading = EXCEPT, long, value_name = "USER,...", value_parser = list())]
    pub except_users: Option<NameList>,

    /// Leave processes of these control groups, and of those below them, alone; a list with commas
    #[arg(help_heading = EXCEPT, long, value_name = "GROUP,...", value_parser = list())]
    pub except_cgroups: Option<NameList>,
}

/// The processes that the command line names.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = PROCESSES)]
pub struct ProcessArgs {
    /// Balance this process; may be repeated. Without these four options: processes that the
    /// settings files name [default: all]
    #[arg(long, value_name = "PID")]
    pub pid: Vec<Pid>,
    /// Balance processes of this name (column COMMAND of ps); may be repeated
    #[arg(long, value_name = "NAME", value_parser = name_parser())]
    pub name: Vec<Name>,
    /// Balance processes of this user, by name or number; may be repeated
    #[arg(long, value_name = "USER")]
    pub user: Vec<String>,
    /// Balance processes of this control group and below; may be repeated
    #[arg(long, value_name = "GROUP")]
    pub cgroup: Vec<PathBuf>,
}

impl BalanceLayer {
    /// Returns this layer with missing values taken from the one below.
    pub fn over(self, below: Self) -> Self {
        Self {
            interval: self.interval.or(below.interval),
            cpu_budget: self.cpu_budget.or(below.cpu_budget),
            budget: self.budget.or(below.budget),
            budget_per_process: self.budget_per_process.or(below.budget_per_process),
            stall: self.stall.or(below.stall),
            nice: self.nice.or(below.nice),
            horizon: self.horizon.or(below.horizon),
            horizon_max: self.horizon_max.or(below.horizon_max),
            run_time_min: self.run_time_min.or(below.run_time_min),
            move_memory: self.move_memory.or(below.move_memory),
            pin: self.pin.or(below.pin),
            scheduler: self.scheduler.or(below.scheduler),
            page_lists: self.page_lists.or(below.page_lists),
            rivals: self.rivals.or(below.rivals),
            keep_empty: self.keep_empty.or(below.keep_empty),
            access: self.access.or(below.access),
            socket: self.socket.or(below.socket),
            socket_mode: self.socket_mode.or(below.socket_mode),
            socket_group: self.socket_group.or(below.socket_group),
            socket_moves: self.socket_moves.or(below.socket_moves),
            socket_budget: self.socket_budget.or(below.socket_budget),
            textfile: self.textfile.or(below.textfile),
            metrics_processes: self.metrics_processes.or(below.metrics_processes),
            names: self.names.or(below.names),
            users: self.users.or(below.users),
            cgroups: self.cgroups.or(below.cgroups),
            except_names: self.except_names.or(below.except_names),
            except_users: self.except_users.or(below.except_users),
            except_cgroups: self.except_cgroups.or(below.except_cgroups),
        }
    }

    /// Returns the settings, with defaults for missing values. If `act` is false, the balancer only
    /// reports what it would do.
    ///
    /// # Errors
    /// If a time is out of range, or a user does not exist here.
    pub fn resolve(&self, act: bool) -> Result<BalanceSettings> {
        let usual = BalanceSettings::default();
        let time = |choice: Option<TimeChoice>, usual| choice.map_or(usual, |TimeChoice(ns)| ns);
        let switch = |choice: Option<Switch>, usual| choice.map_or(usual, |Switch(on)| on);
        let rate = |choice: Option<RateChoice>, usual| match choice {
            Some(RateChoice(rate)) => rate.unwrap_or(u64::MAX),
            None => usual,
        };
        let cpu_budget_ns = time(self.cpu_budget, u64::from(usual.steady_ppm) * NS_PER_PPM);
        let steady_ppm = cpu_budget_ppm(cpu_budget_ns)?;
        let settings = BalanceSettings {
            interval_ns: time(self.interval, usual.interval_ns),
            budget_bytes_per_s: rate(self.budget, usual.budget_bytes_per_s),
            process_budget_bytes_per_s: rate(
                self.budget_per_process,
                usual.process_budget_bytes_per_s,
            ),
            user_budget_bytes_per_s: rate(self.socket_budget, usual.user_budget_bytes_per_s),
            stall_ns: self.stall.map_or(usual.stall_ns, |StallChoice(ns)| ns),
            nice: self.nice.map_or(Some(NICE), |NiceChoice(nice)| nice),
            pin: switch(self.pin, usual.pin),
            act,
            rivals: self.rivals.map_or(usual.rivals, RivalsChoice::mode),
            access: self.access.map_or(usual.access, |AccessSourceChoice(choice)| choice),
            keep_empty: self.kept_empty(),
            except: ProcessFilter {
                pids: Vec::new(),
                names: names(self.except_names.as_ref()),
                users: user_ids(&words(self.except_users.as_ref()))?,
                cgroups: paths(self.except_cgroups.as_ref()),
            },
            rules: Rules {
                horizon_ns: time(self.horizon, usual.rules.horizon_ns),
                horizon_ns_max: time(self.horizon_max, usual.rules.horizon_ns_max),
                run_ns_min: time(self.run_time_min, usual.rules.run_ns_min),
                move_memory: switch(self.move_memory, usual.rules.move_memory),
                ..usual.rules
            },
            steady_ppm,
            // At most 100,000 ppm times 20,000 are 2e9, which fits.
            converging_ppm: usual.converging_ppm * steady_ppm / usual.steady_ppm,
            ..usual
        };
        if settings.pin && self.scheduler == Some(SchedulerChoice::Bpf) {
            bail!(
                "balance.pin binds threads, which leaves balance.scheduler = bpf no choice; set one"
            );
        }
        if settings.interval_ns < INTERVAL_NS_MIN {
            bail!("balance.interval is below 100ms, where looking costs more than it brings");
        }
        Ok(settings)
    }

    /// Returns the nodes that are to be kept empty.
    pub fn kept_empty(&self) -> Nodemask {
        self.keep_empty.clone().map_or_else(Nodemask::new, |NodesChoice(nodes)| nodes)
    }

    /// Returns the processes to balance: those named on the command line, or, if there are none,
    /// those that this layer names.
    ///
    /// # Errors
    /// If a user does not exist here.
    pub fn process_filter(&self, chosen: &ProcessArgs) -> Result<ProcessFilter> {
        if *chosen != ProcessArgs::default() {
            return Ok(ProcessFilter {
                pids: chosen.pid.clone(),
                names: chosen.name.clone(),
                users: user_ids(&chosen.user)?,
                cgroups: chosen.cgroup.clone(),
            });
        }
        Ok(ProcessFilter {
            pids: Vec::new(),
            names: names(self.names.as_ref()),
            users: user_ids(&words(self.users.as_ref()))?,
            cgroups: paths(self.cgroups.as_ref()),
        })
    }
}

/// Minimum time between two rounds, in nanoseconds.
const INTERVAL_NS_MIN: u64 = 100_000_000;
/// The nice value of moves. Memory that is home sooner pays for longer, at the same price; beside
/// three busy threads a worker has a quarter of a CPU, and nine times their weight gives it three
/// quarters.
const NICE: i8 = -10;

/// A millionth of each second, in nanoseconds.
const NS_PER_PPM: u64 = 1_000;

/// Returns the CPU time for observing per second in ppm of a CPU. It may be 0.1 ms to a tenth of a
/// CPU.
fn cpu_budget_ppm(ns: u64) -> Result<u32> {
    match u32::try_from(ns / NS_PER_PPM) {
        Ok(ppm @ 100..=100_000) => Ok(ppm),
        _ => bail!("balance.cpu-budget is a part of each second; give 100us to 100ms"),
    }
}

/// Creates a parser of names with commas between them, which need not be UTF-8.
fn list() -> impl TypedValueParser<Value = NameList> {
    OsStringValueParser::new().map(|words| NameList::of(words.as_bytes()))
}

fn names(list: Option<&NameList>) -> Vec<Name> {
    list.map_or_else(Vec::new, |NameList(names)| names.clone())
}

fn words(list: Option<&NameList>) -> Vec<String> {
    names(list).iter().map(Name::to_string).collect()
}

fn paths(list: Option<&NameList>) -> Vec<PathBuf> {
    names(list).iter().map(|name| name.as_os_str().into()).collect()
}

fn user_ids(names: &[String]) -> Result<Vec<u32>> {
    let number = |name: &String| match users::uid(name)? {
        Some(number) => Ok(number),
        None => bail!(
            "'{}' is no user in /etc/passwd; give the number that id -u tells",
            name.escaped()
        ),
    };
    names.iter().map(number).collect()
}
