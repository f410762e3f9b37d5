//! The state of the screen.

use std::sync::Arc;
use std::time::Duration;

use nodeward_model::units::format_bytes;
use nodeward_model::{NodeId, Nodemask, Pid};

use super::history::History;
use super::key::Key;
use super::order::sorted;
use crate::args::SortColumn;
use crate::output::topology::Charset;
use crate::results::top::{ProcessDetail, ProcessFigures, TopSample};

/// The state of the screen.
pub struct Model {
    /// What is not changed by keys.
    pub setup: Setup,
    /// The last figures; none before the first refresh.
    pub sample: Option<Arc<TopSample>>,
    /// What was before.
    pub history: History,
    /// What is shown.
    pub look: Look,
    /// What is asked, below that.
    pub ask: Option<Ask>,
    /// What rows are sorted by.
    pub sort: SortColumn,
    /// The text that rows must have.
    pub filter: String,
    /// The process under the cursor.
    pub selected: Option<Pid>,
    /// Its row, and the first row that is on the screen.
    pub cursor: usize,
    /// The first row on the screen.
    pub first: usize,
    /// The closer look at the process of [`Look::Detail`], once it is there.
    pub detail: Option<ProcessDetail>,
    /// The move under way.
    pub moving: Option<MoveStatus>,
    /// The last thing that happened, in words.
    pub message: Option<String>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// The time since the last figures came, if that is long.
    pub late: Option<Duration>,
}

/// What the command line and the terminal say.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The machine, if it is simulated; the socket of the agent.
    pub whereabouts: String,
    /// Which characters may be drawn.
    pub charset: Charset,
    /// Whether colours may be used.
    pub has_colours: bool,
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// All processes.
    Processes,
    /// The groups.
    Groups,
    /// One process.
    Detail(Pid),
    /// The keys.
    Help,
}

/// A question, or a line that is typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The text that rows must have.
    Filter,
    /// From where to where memory of a process is to move.
    Nodes(NewMove),
    /// A plan is being made.
    Planning,
    /// Whether to carry out a plan.
    Carry(Proposal),
    /// Whether to stop the move.
    Cancel,
    /// Whether to stop the move and end.
    Quit,
}

/// A move that somebody orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewMove {
    /// The process.
    pub pid: Pid,
    /// FROM and TO, as they are typed.
    pub nodes: String,
}

/// A plan that waits for a yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The number of the plan.
    pub number: u64,
    /// What it would do.
    pub lines: Vec<String>,
}

/// How far a move is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveStatus {
    /// The process whose memory moves.
    pub pid: Option<Pid>,
    /// What moves, in words.
    pub what: String,
    /// Bytes that were examined, and that are to be.
    pub done_bytes: u64,
    /// All of them.
    pub total_bytes: u64,
    /// Bytes that moved.
    pub moved_bytes: u64,
    /// Somebody asked it to stop.
    pub is_stopping: bool,
}

impl MoveStatus {
    /// Formats how far it is.
    pub fn progress(&self) -> String {
        let stops = if self.is_stopping { ", stopping" } else { "" };
        let percent = self.done_bytes.saturating_mul(100) / self.total_bytes.max(1);
        format!("{percent} %, {} moved{stops}", format_bytes(self.moved_bytes))
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum ScreenEvent {
    /// A key.
    Key(Key),
    /// The terminal has another size.
    Resized(u16, u16),
    /// New figures.
    Sample(Arc<TopSample>),
    /// A closer look.
    Detail(ProcessDetail),
    /// A plan was made, or why not.
    Planned(Result<Proposal, String>),
    /// A move began, or goes on.
    Moving(MoveStatus),
    /// The move ended; what it did.
    Ended(String),
    /// A message of this program.
    Said(String),
    /// No figures came for so long.
    Late(Duration),
}

/// What the screen wants from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScreenRequest {
    /// Plan a move.
    Plan(NewMove),
    /// Plan to undo the last move.
    PlanUndo,
    /// Carry out the plan of this number.
    Carry(u64),
    /// Forget the plan.
    Forget,
    /// Stop the move.
    Cancel,
    /// Draw everything anew.
    Redraw,
    /// End.
    Quit,
}

impl Model {
    /// Creates a screen without figures.
    pub fn new(setup: Setup, sort: SortColumn, filter: String) -> Self {
        Self {
            setup,
            sample: None,
            history: History::default(),
            look: Look::Processes,
            ask: None,
            sort,
            filter,
            selected: None,
            cursor: 0,
            first: 0,
            detail: None,
            moving: None,
            message: None,
            size: (0, 0),
            late: None,
        }
    }

    /// Returns the processes in the order of the rows.
    pub fn rows(&self) -> Vec<&ProcessFigures> {
        let processes = self.sample.as_ref().map_or(&[][..], |sample| &sample.processes);
        sorted(processes, &self.filter, self.sort)
    }

    /// Returns the figures of a process, if it is there.
    pub fn process(&self, pid: Pid) -> Option<&ProcessFigures> {
        let processes = &self.sample.as_ref()?.processes;
        processes.binary_search_by_key(&pid, |one| one.pid).ok().map(|at| &processes[at])
    }

    /// Returns where the memory of a process may be meant to go: FROM and TO.
    pub fn suggestion(&self, pid: Pid) -> String {
        let suggested = self.process(pid).and_then(|process| {
            let to = destination(process)?;
            let residency = process.residency.as_ref()?;
            let from = residency.bytes.iter().filter(|(node, bytes)| **node != to && **bytes > 0);
            let from: Nodemask = from.map(|(node, _)| *node).collect();
            (!from.is_empty()).then(|| format!("{from} {to}"))
        });
        suggested.unwrap_or_default()
    }
}

/// Returns the home of a process if that is one node, else the node where most of its threads are.
fn destination(process: &ProcessFigures) -> Option<NodeId> {
    let home = process.decision.as_ref().map(|decision| &decision.home_nodes);
    let home = home.filter(|nodes| nodes.len() == 1).and_then(|nodes| nodes.iter().next());
    let busiest = process.threads.iter().max_by_key(|(_, count)| **count);
    home.or(busiest.map(|(node, _)| *node))
}
