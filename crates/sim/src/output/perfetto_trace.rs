//! Writes a trace of a run in the JSON format of Chrome, which <https://ui.perfetto.dev> opens: a
//! track for each CPU below its node, counters for nodes and machine, instants for interrupts and
//! actions.
//!
//! Times are microseconds with three decimals, written from integers.

use std::io::{self, Write};

use nodeward_scenario::{Action, Scenario};
use serde_json::{Value, json};

use super::action_text::describe_action;
use crate::hardware::MachineLayout;
use crate::statistics::{CpuTimeKind, CpuTurn, Observer, Point};

/// The trace process of the whole machine. Nodes are 1 and up, because viewers take 0 for idle.
const MACHINE: usize = 1_000_000;
/// Bytes reserved for the end when a trace is cut.
const END_BYTES: u64 = 4096;

/// Writes a trace. The first error of the writer ends the trace, and is returned at the end.
pub struct Perfetto<W> {
    out: W,
    error: Option<io::Error>,
    written: u64,
    event_bytes_max: u64,
    cut_at_ns: Option<u64>,
    /// Whether writes may use the bytes reserved for the end.
    ending: bool,
    has_events: bool,
    /// By CPU: the numbers of its process and thread in the trace, and its present slice.
    tracks: Vec<CpuTrack>,
    actions: Vec<Action>,
    written_actions: usize,
    page_bytes: u64,
    last_point: Point,
}

struct CpuTrack {
    pid: usize,
    tid: usize,
    slice: Option<Slice>,
}

/// Consecutive turns of one task for the same purpose.
struct Slice {
    began_ns: u64,
    ended_ns: u64,
    task: u32,
    spent: CpuTimeKind,
    name: String,
}

/// How a trace ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceEnd {
    /// Its size.
    pub bytes: u64,
    /// The virtual time at which it was cut because it had reached its maximum size, if it was.
    pub cut_at_ns: Option<u64>,
}

impl<W: Write> Perfetto<W> {
    /// Creates a trace of at most about `bytes_max` bytes.
    pub fn new(out: W, scenario: &Scenario, bytes_max: u64) -> Self {
        let layout = MachineLayout::of(&scenario.machine);
        let track = |cpu: usize| CpuTrack {
            pid: layout.node_of(cpu) + 1,
            tid: layout.cpus[cpu].id.0 as usize + 1,
            slice: None,
        };
        let mut trace = Self {
            out,
            error: None,
            written: 0,
            event_bytes_max: bytes_max.max(END_BYTES) - END_BYTES,
            cut_at_ns: None,
            ending: false,
            has_events: false,
            tracks: (0..layout.cpus.len()).map(track).collect(),
            actions: scenario.actions.clone(),
            written_actions: 0,
            page_bytes: scenario.machine.params.page_bytes,
            last_point: Point::default(),
        };
        trace.write_track_names(&layout, &scenario.name);
        trace
    }

    /// Writes the names of all tracks.
    fn write_track_names(&mut self, layout: &MachineLayout, name: &str) {
        self.write_raw("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[");
        self.write_name("process_name", MACHINE, 0, &format!("machine of {name}"));
        for (node, id) in layout.node_ids.iter().enumerate() {
            self.write_name("process_name", node + 1, 0, &format!("node {id}"));
        }
        for cpu in 0..layout.cpus.len() {
            let (pid, tid) = (self.tracks[cpu].pid, self.tracks[cpu].tid);
            self.write_name("thread_name", pid, tid, &format!("CPU {}", tid - 1));
        }
    }

    fn write_name(&mut self, what: &str, pid: usize, tid: usize, name: &str) {
        let args = json!({ "name": name });
        self.write_event(
            &json!({ "ph": "M", "name": what, "pid": pid, "tid": tid, "args": args }),
            None,
        );
    }

    /// Ends the trace at time `at_ns`.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn end(&mut self, at_ns: u64) -> io::Result<TraceEnd> {
        (0..self.tracks.len()).for_each(|cpu| self.flush_slice(cpu));
        self.write_due_actions(at_ns);
        if let Some(cut_at) = self.cut_at_ns {
            self.ending = true;
            self.write_instant(cut_at, MACHINE, 0, "g", "the trace is cut here", &json!({}));
        }
        self.write_raw("\n]}\n");
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        self.out.flush()?;
        Ok(TraceEnd { bytes: self.written, cut_at_ns: self.cut_at_ns })
    }

    /// Returns the writer.
    pub fn out(&self) -> &W {
        &self.out
    }

    fn write_instant(
        &mut self,
        at: u64,
        pid: usize,
        tid: usize,
        scope: &str,
        name: &str,
        args: &Value,
    ) {
        let event =
            json!({ "ph": "i", "name": name, "pid": pid, "tid": tid, "s": scope, "args": args });
        self.write_event(&event, Some(at));
    }

    fn write_counter(&mut self, at_ns: u64, pid: usize, name: &str, args: &Value) {
        self.write_event(
            &json!({ "ph": "C", "name": name, "pid": pid, "args": args }),
            Some(at_ns),
        );
    }

    fn flush_slice(&mut self, cpu: usize) {
        let CpuTrack { pid, tid, slice } = &mut self.tracks[cpu];
        let Some(slice) = slice.take() else { return };
        let event = json!({
            "ph": "X", "name": slice.name, "cat": slice.spent.name(), "pid": *pid, "tid": *tid,
            "args": { "task": slice.task, "spent": slice.spent.name() },
        });
        let duration = micros(slice.ended_ns - slice.began_ns);
        self.write_timed_event(&event, Some(slice.began_ns), Some(&duration));
    }

    /// Writes the actions that were due by `now_ns`.
    fn write_due_actions(&mut self, now_ns: u64) {
        while let Some(action) = self.actions.get(self.written_actions) {
            let at_ns = action.at_ns;
            if at_ns > now_ns {
                break;
            }
            let name = describe_action(action);
            self.written_actions += 1;
            self.write_instant(at_ns, MACHINE, 0, "g", &name, &json!({}));
        }
    }

    fn write_event(&mut self, event: &Value, at_ns: Option<u64>) {
        self.write_timed_event(event, at_ns, None);
    }

    /// Writes an event. Its times are inserted as text, because a floating point number in JSON
    /// could not promise three decimals.
    fn write_timed_event(&mut self, event: &Value, at_ns: Option<u64>, duration: Option<&str>) {
        if self.cut_at_ns.is_some() && !self.ending {
            return;
        }
        let mut text = event.to_string();
        text.pop(); // the closing brace
        if let Some(at_ns) = at_ns {
            text += &format!(",\"ts\":{}", micros(at_ns));
        }
        if let Some(duration) = duration {
            text += &format!(",\"dur\":{duration}");
        }
        text.push('}');
        if self.written + text.len() as u64 > self.event_bytes_max && !self.ending {
            self.cut_at_ns = Some(at_ns.unwrap_or(0));
            return;
        }
        let separator = if std::mem::replace(&mut self.has_events, true) { ",\n" } else { "\n" };
        self.write_raw(separator);
        self.write_raw(&text);
    }

    fn write_raw(&mut self, text: &str) {
        if self.error.is_none() {
            self.error = self.out.write_all(text.as_bytes()).err();
            self.written += text.len() as u64;
        }
    }
}

impl<W: Write + Send> Observer for Perfetto<W> {
    fn turn(&mut self, turn: &CpuTurn<'_>) {
        if turn.began_ns == turn.ended_ns {
            return; // interrupted before it did anything
        }
        let goes_on = |slice: &Slice| {
            (slice.ended_ns, slice.task, slice.spent) == (turn.began_ns, turn.task, turn.spent)
        };
        if let Some(slice) = self.tracks[turn.cpu].slice.as_mut().filter(|slice| goes_on(slice)) {
            slice.ended_ns = turn.ended_ns;
            return;
        }
        self.flush_slice(turn.cpu);
        let name = match (turn.process, turn.spent) {
            (Some((name, pid)), CpuTimeKind::User) => format!("{name} {pid}"),
            (Some((name, pid)), spent) => format!("{name} {pid}: {}", spent.name()),
            (None, spent) => format!("kernel: {}", spent.name()),
        };
        self.tracks[turn.cpu].slice = Some(Slice {
            began_ns: turn.began_ns,
            ended_ns: turn.ended_ns,
            task: turn.task,
            spent: turn.spent,
            name,
        });
    }

    fn interrupted(&mut self, at_ns: u64, cpu: usize, ns: u64) {
        let CpuTrack { pid, tid, .. } = self.tracks[cpu];
        self.write_instant(at_ns, pid, tid, "t", "interrupt", &json!({ "lost_ns": ns }));
    }

    fn point(&mut self, point: &Point) {
        self.write_due_actions(point.at_ns);
        let at_ns = point.at_ns;
        for (node, now) in point.nodes.iter().enumerate() {
            let rate = json!({ "MB/s": now.bytes_per_s / 1_000_000 });
            self.write_counter(at_ns, node + 1, "bandwidth", &rate);
            let free = json!({ "MiB": (now.free_pages * self.page_bytes) >> 20 });
            self.write_counter(at_ns, node + 1, "free memory", &free);
        }
        let local = point.local_lines - self.last_point.local_lines;
        let lines = local + point.remote_lines - self.last_point.remote_lines;
        if lines > 0 {
            let percent = u128::from(local) * 100 / u128::from(lines);
            self.write_counter(at_ns, MACHINE, "local lines", &json!({ "%": percent as u64 }));
        }
        let migrated = json!({ "MiB": (point.migrated_pages * self.page_bytes) >> 20 });
        self.write_counter(at_ns, MACHINE, "migrated", &migrated);
        self.write_counter(at_ns, MACHINE, "busy CPUs", &json!({ "CPUs": point.busy_cpus }));
        self.last_point = point.clone();
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}
