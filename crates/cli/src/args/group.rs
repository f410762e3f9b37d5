//! Arguments of `group`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use nodeward_agent::socket::DEFAULT_PATH;
use nodeward_model::{GroupName, MemorySelector, Name, Pid, units};

use super::machine::MachineArgs;
use super::output::{OutputArgs, ProgressArgs};
use crate::message::help::{OUTPUT, PROCESSES};
use crate::settings::{GroupHomeChoice, name_parser};

/// Arguments of `group`.
#[derive(Debug, Args)]
pub struct GroupArgs {
    /// What to do.
    #[command(subcommand)]
    pub verb: GroupVerb,
}

/// What to do with groups.
#[derive(Debug, Subcommand)]
pub enum GroupVerb {
    /// List groups with their homes and members; root sees all, others see their own.
    List(GroupListArgs),
    /// Make a group without members, and print its number. It ends with its last member.
    Create(GroupCreateArgs),
    /// Put threads and memory of processes into a group.
    ///
    /// Without --thread and --memory: all threads, also those that a process will start, and all
    /// memory that is not a file's. What is put into a group leaves the one in which it was.
    /// Processes that start later are in none; [group.NAME] in the settings takes them, too.
    Add(GroupAddArgs),
    /// Say where a group is to be.
    SetHome(GroupSetHomeArgs),
    /// Delete a group; its members belong to their processes again
    Delete(GroupDeleteArgs),
    /// Propose groups for a process, as tables of a settings file.
    ///
    /// Threads whose names differ in their numbers only are one group. Which memory is theirs,
    /// accesses tell (memory = ["touched"]). Changes nothing.
    Propose(GroupProposeArgs),
}

/// The agent that has the groups.
#[derive(Debug, Args)]
pub struct GroupAgentArgs {
    /// The socket of the agent (nodeward balance)
    #[arg(help_heading = OUTPUT, long, value_name = "SOCKET", require_equals = true,
          default_value = DEFAULT_PATH)]
    pub agent: PathBuf,
}

/// Arguments of `group list`.
#[derive(Debug, Args)]
pub struct GroupListArgs {
    /// The agent.
    #[command(flatten)]
    pub by: GroupAgentArgs,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `group create`.
#[derive(Debug, Args)]
pub struct GroupCreateArgs {
    /// Its name: 1 to 64 letters, digits, '.', '_', '-', not digits alone
    #[arg(value_name = "NAME")]
    pub name: GroupName,
    /// Where it is to be: auto, nodes such as 0-1, spread:NODES, which evens out its memory, or
    /// near:DEVICE, such as near:netdev:eth0 or near:gpu:0 (nodeward show --devices)
    #[arg(long, value_name = "HOME", default_value = "auto")]
    pub home: GroupHomeChoice,
    /// The agent.
    #[command(flatten)]
    pub by: GroupAgentArgs,
    /// How to print it.
    #[command(flatten)]
    pub output: OutputArgs,
}

/// Arguments of `group add`.
#[derive(Debug, Args)]
pub struct GroupAddArgs {
    /// The group, by its number or its name
    #[arg(value_name = "GROUP")]
    pub group: String,
    /// Process ids (none with --name or --cgroup)
    #[arg(value_name = "PID", required_unless_present_any = ["name", "cgroup"])]
    pub pids: Vec<Pid>,
    /// Processes of this name (column COMMAND of ps); may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "NAME", value_parser = name_parser())]
    pub name: Vec<Name>,
    /// Processes of this control group and of those below it; may be repeated
    #[arg(help_heading = PROCESSES, long, value_name = "GROUP")]
    pub cgroup: Vec<PathBuf>,
    /// Only this thread, of the only process; may be repeated
    #[arg(long, value_name = "TID", conflicts_with_all = ["name", "cgroup"])]
    pub thread: Vec<u32>,
    /// Only this memory: heap, stack, anonymous, shared, huge, touched (what its threads access
    /// most), file:PATTERN, or addresses START-END in hexadecimal; may be repeated
    #[arg(long, value_name = "MEMORY")]
    pub memory: Vec<MemorySelector>,
    /// The agent.
    #[command(flatten)]
    pub by: GroupAgentArgs,
}

/// Arguments of `group set-home`.
#[derive(Debug, Args)]
pub struct GroupSetHomeArgs {
    /// The group, by its number or its name
    #[arg(value_name = "GROUP")]
    pub group: String,
    /// Where it is to be: auto, nodes such as 0-1, spread:NODES, or near:DEVICE
    #[arg(value_name = "HOME")]
    pub home: GroupHomeChoice,
    /// The agent.
    #[command(flatten)]
    pub by: GroupAgentArgs,
}

/// Arguments of `group delete`.
#[derive(Debug, Args)]
pub struct GroupDeleteArgs {
    /// The group, by its number or its name
    #[arg(value_name = "GROUP")]
    pub group: String,
    /// The agent.
    #[command(flatten)]
    pub by: GroupAgentArgs,
}

/// Arguments of `group propose`.
#[derive(Debug, Args)]
pub struct GroupProposeArgs {
    /// The process
    #[arg(value_name = "PID")]
    pub pid: Pid,
    /// Observe its accesses for this long, such as 2s, and say which group touches which memory
    #[arg(long = "for", id = "for_time", value_name = "TIME",
          value_parser = units::parse_duration_ns)]
    pub for_ns: Option<u64>,
    /// When to show progress.
    #[command(flatten)]
    pub progress: ProgressArgs,
    /// How to print them.
    #[command(flatten)]
    pub output: OutputArgs,
    /// The machine.
    #[command(flatten)]
    pub machine_args: MachineArgs,
}
