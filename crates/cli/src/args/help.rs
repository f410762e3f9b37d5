//! How help is laid out: options stand in groups, each in a line or two, and behind them what more
//! there is to say. `nodeward help VERB` and the manual have it in the usual order.

use clap::{Arg, ArgAction, Command};

/// Options that say which processes are meant.
pub const PROCESSES: &str = "Which processes";
/// Options that leave some of those out.
pub const EXCEPT: &str = "Which processes are left alone";
/// Options that say which memory is meant.
pub const MEMORY: &str = "Which memory";
/// Options that say how much is done how fast.
pub const PACE: &str = "Pace";
/// Options that say what is decided.
pub const DECIDED: &str = "What is decided";
/// Options that say what to look at instead of this machine.
pub const ELSEWHERE: &str = "Instead of this machine";
/// Options that say how pages are counted.
pub const COUNTING: &str = "Counting";
/// Options that say what is done and printed.
pub const OUTPUT: &str = "What is done and told";
/// Options of simulated machines; the last everywhere.
pub const SIMULATED: &str = "On a simulated machine";

/// Lays out the help of a command and of those below it.
pub fn compact(command: Command) -> Command {
    let text = |styled: &clap::builder::StyledStr| styled.to_string();
    let about = command.get_long_about().map(text).unwrap_or_default();
    let more = about.split_once("\n\n").map(|(_, more)| more.to_owned());
    let behind = command.get_after_long_help().map(text);
    let words: Vec<String> = more.into_iter().chain(behind).collect();
    let help = Arg::new("help").short('h').long("help").help("Print help").help_heading(None);
    let command = command.disable_help_flag(true).arg(help.action(ArgAction::HelpShort));
    command.after_help(words.join("\n\n")).mut_subcommands(compact)
}
