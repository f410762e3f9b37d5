//! Layout of help: options are grouped, each with a line or two, and further text follows them.
//! `nodeward help VERB` and the manual use the usual order.

use clap::{Arg, ArgAction, Command};

/// Options that select processes.
pub const PROCESSES: &str = "Which processes";
/// Options that exclude processes.
pub const EXCEPT: &str = "Which processes are left alone";
/// Options that select memory.
pub const MEMORY: &str = "Which memory";
/// Options that leave memory where it is.
pub const STAYS: &str = "Which memory stays";
/// Options that limit speed and stalls.
pub const PACE: &str = "Speed and limits";
/// Options of decisions.
pub const DECIDED: &str = "Decisions";
/// Options of the agent, and of metrics.
pub const AGENT: &str = "Agent and metrics";
/// Options that select another machine than this one.
pub const ELSEWHERE: &str = "Instead of this machine";
/// Options of sampling pages.
pub const COUNTING: &str = "Sampling";
/// Options of actions and output.
pub const OUTPUT: &str = "Action and output";
/// Options of simulated machines; always the last group.
pub const SIMULATED: &str = "On a simulated machine";

/// Lays out the help of a command and its subcommands.
pub fn compact(command: Command) -> Command {
    // With its styles: taking them out of the help of all verbs was a third of a command's start.
    let text = |styled: &clap::builder::StyledStr| styled.ansi().to_string();
    let about = command.get_long_about().map(text).unwrap_or_default();
    let more = about.split_once("\n\n").map(|(_, more)| more.to_owned());
    let behind = command.get_after_long_help().map(text);
    let words: Vec<String> = more.into_iter().chain(behind).collect();
    let help = Arg::new("help").short('h').long("help").help("Print help").help_heading(None);
    // Otherwise it would come before or after --config by the number of all arguments and verbs.
    let help = help.display_order(usize::MAX);
    let command = command.disable_help_flag(true).arg(help.action(ArgAction::HelpShort));
    command.after_help(words.join("\n\n")).mut_subcommands(compact)
}
