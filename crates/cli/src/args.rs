//! The command line as it was typed, a module for each verb. Nothing here looks at the machine.

mod agent;
mod balance;
mod bench;
mod cli;
mod compare;
mod config;
mod deadline;
mod deprecated;
mod evacuate;
mod examples;
mod explain;
mod export;
mod group;
mod ledger;
mod machine;
mod move_run;
mod moves;
mod output;
mod parsers;
mod pcp;
mod placement;
mod report;
mod reproduce;
mod run;
mod scaling;
mod show;
mod sim;
mod simulation_jobs;
mod skip;
mod spread;
mod swarm;
mod sweep;
mod top;
mod watch;

pub use balance::BalanceArgs;
pub use bench::{
    BenchAgentArgs, BenchArgs, BenchBalanceArgs, BenchCallsArgs, BenchLimitsArgs, BenchPagerArgs,
    BenchPoolArgs, BenchReportArgs, Benchmark, BenchmarkLine, ReportedBenchmark,
};
pub use cli::{Cli, Verb, with_escaped_arguments};
pub use compare::CompareArgs;
pub use config::{ConfigArgs, ConfigVerb, PrintArgs};
pub use deadline::DeadlineArgs;
pub use deprecated::report_old_options;
pub use evacuate::EvacuateArgs;
pub use explain::{ExplainArgs, ExplainSubject};
pub use export::ExportArgs;
pub use group::{
    GroupAddArgs, GroupArgs, GroupCreateArgs, GroupListArgs, GroupProposeArgs, GroupVerb,
};
pub use ledger::{LedgerArgs, UndoArgs};
pub use machine::MachineArgs;
pub use move_run::MoveRunArgs;
pub use moves::MoveArgs;
pub use output::OutputArgs;
pub use pcp::{
    ListSelectionArgs, PcpAdviseArgs, PcpArgs, PcpShowArgs, PcpTuneArgs, PcpVerb, PcpWatchArgs,
    TuningBoundsArgs,
};
pub use placement::{PlacedArgs, PlacementRestoreArgs, PlacementSaveArgs, PlacementVerb};
pub use report::ReportArgs;
pub use reproduce::ReproduceArgs;
pub use run::{HomeChoice, RunArgs};
pub use scaling::ScalingArgs;
pub use show::ShowArgs;
pub use sim::{SimArgs, SimVerb};
pub use skip::SkipArgs;
pub use spread::SpreadArgs;
pub use swarm::{SwarmArgs, bug_name};
pub use sweep::SweepArgs;
pub use top::{SortColumn, TopArgs};
pub use watch::WatchArgs;
