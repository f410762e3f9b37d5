//! The tasks of a run: starts them, lets them begin, reads their messages, and waits for their end.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nodeward_model::Cpumask;
use nodeward_runner::affinity;
use nodeward_runner::{RunSpec, TaskSpec};
use serde_json::Value;

/// Timeout for a task to free its memory.
const EXIT_TIMEOUT: Duration = Duration::from_secs(120);

/// A message of a task.
#[derive(Debug, PartialEq, Eq)]
pub enum TaskEvent {
    /// Its memory is in place.
    Ready,
    /// A thread has finished one more pass, or a short task has ended.
    Pass,
    /// This many words had a wrong value.
    Mismatches(u64),
    /// Its work is done.
    Done,
    /// It has ended and is reaped.
    Ended,
    /// It ended with an error.
    Failed(String),
}

type TaskEventSender = Sender<(usize, TaskEvent)>;

/// All tasks of a run.
pub struct TaskSet {
    tasks: Vec<TaskSpec>,
    /// For each task that is one process: its process id, and the pipe that lets it begin.
    processes: Vec<Option<TaskProcess>>,
    sender: TaskEventSender,
    events: Receiver<(usize, TaskEvent)>,
    /// Number of passes so far.
    pub passes: u64,
    /// Number of words with a wrong value.
    pub mismatches: u64,
    /// Number of tasks that have ended.
    ended: usize,
}

struct TaskProcess {
    pid: u32,
    stdin: std::process::ChildStdin,
}

impl TaskSet {
    /// Starts the tasks, except those that run in a row.
    pub fn start(spec: &RunSpec) -> Result<Self> {
        let (says, heard) = channel();
        let mut tasks = spec.tasks.clone();
        if spec.balancer.is_manual {
            tasks.iter_mut().for_each(|task| task.command.append(&mut task.manual_arguments));
        }
        let all = affinity::all_cpus()?;
        let mut members = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let confined = task.start_node.filter(|_| !spec.balancer.is_manual);
            let cpus = confined.map_or(Ok(all.clone()), affinity::cpus_of)?;
            let member = match task.sequential_processes {
                0 => Some(start(task, number, &cpus, &says)?),
                _ => None,
            };
            members.push(member);
        }
        affinity::confine_this_thread(&all)?;
        Ok(Self {
            tasks,
            processes: members,
            sender: says,
            events: heard,
            passes: 0,
            mismatches: 0,
            ended: 0,
        })
    }

    /// Returns the process ids of those tasks that have one.
    pub fn pids(&self) -> Vec<u32> {
        self.processes.iter().flatten().map(|member| member.pid).collect()
    }

    /// Waits until the memory of all tasks is in place.
    pub fn await_ready(&mut self) -> Result<()> {
        let mut missing = self.processes.iter().flatten().count();
        while missing > 0 {
            match self.events.recv().context("the tasks are gone")? {
                (_, TaskEvent::Ready) => missing -= 1,
                (task, word) => bail!("task {task} said {word:?} before it began"),
            }
        }
        Ok(())
    }

    /// Lets all tasks begin.
    pub fn begin(&mut self) -> Result<()> {
        for member in self.processes.iter_mut().flatten() {
            member.stdin.write_all(b"go\n").context("a task does not listen")?;
        }
        for (number, task) in
            self.tasks.iter().enumerate().filter(|(_, task)| task.sequential_processes > 0)
        {
            let (task, says) = (task.clone(), self.sender.clone());
            thread::spawn(move || run_sequentially(&task, number, &says));
        }
        Ok(())
    }

    /// Lets tasks that had to begin on a node use every CPU. A task that has ended already is no
    /// error.
    pub fn lift_confinement(&self) -> Result<()> {
        let all = affinity::all_cpus()?;
        let members = self.tasks.iter().zip(&self.processes);
        let confined = members.filter(|(task, _)| task.start_node.is_some());
        for pid in confined.filter_map(|(_, member)| Some(member.as_ref()?.pid)) {
            let freed = affinity::confine_process(pid, &all);
            if freed.is_err() && Path::new(&format!("/proc/{pid}")).exists() {
                freed.context("cannot let a task use all CPUs")?;
            }
        }
        Ok(())
    }

    /// Waits for the next message of any task, and counts it.
    pub fn next_event(
        &mut self,
        patience: Duration,
    ) -> Result<(usize, TaskEvent), RecvTimeoutError> {
        let (task, word) = self.events.recv_timeout(patience)?;
        match word {
            TaskEvent::Pass => self.passes += 1,
            TaskEvent::Mismatches(words) => self.mismatches += words,
            TaskEvent::Ended => self.ended += 1,
            _ => {}
        }
        Ok((task, word))
    }

    /// Waits until all tasks have ended, after their work is done.
    pub fn await_end(&mut self) -> Result<()> {
        while self.ended < self.tasks.len() {
            if let (task, TaskEvent::Failed(why)) =
                self.next_event(EXIT_TIMEOUT).context("tasks do not end")?
            {
                bail!("task {task}: {why}");
            }
        }
        Ok(())
    }
}

/// Starts a process on some CPUs, which it inherits from this thread.
fn start(
    task: &TaskSpec,
    number: usize,
    cpus: &Cpumask,
    says: &TaskEventSender,
) -> Result<TaskProcess> {
    affinity::confine_this_thread(cpus)?;
    let mut child = command(task)?.stdin(Stdio::piped()).spawn().context(task.command.join(" "))?;
    let pid = child.id();
    let (go, out) = (child.stdin.take(), child.stdout.take());
    let (go, out) = (go.context("no standard input")?, out.context("no standard output")?);
    let says = says.clone();
    thread::spawn(move || {
        let last = listen(out, number, &says).and_then(|()| ended(&mut child));
        let last =
            last.map_or_else(|why| TaskEvent::Failed(format!("{why:#}")), |()| TaskEvent::Ended);
        let _ = says.send((number, last)); // the receiver is gone if another task failed
    });
    Ok(TaskProcess { pid, stdin: go })
}

fn command(task: &TaskSpec) -> Result<Command> {
    let (program, arguments) = task.command.split_first().context("a task without a command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stdin(Stdio::null());
    Ok(command)
}

/// Passes on the messages of a task until its output ends.
fn listen(out: ChildStdout, number: usize, says: &TaskEventSender) -> Result<()> {
    for line in BufReader::new(out).lines() {
        let line: Value = serde_json::from_str(&line?).context("a line that is not JSON")?;
        for word in parse_events(&line) {
            says.send((number, word))?;
        }
    }
    Ok(())
}

fn parse_events(line: &Value) -> Vec<TaskEvent> {
    let lost = line.get("mismatches").and_then(Value::as_u64).filter(|&lost| lost > 0);
    let said = |key: &str, word: TaskEvent| line.get(key).is_some().then_some(word);
    let (ready, pass) = (said("ready", TaskEvent::Ready), said("pass", TaskEvent::Pass));
    [ready, pass, lost.map(TaskEvent::Mismatches), said("done", TaskEvent::Done)]
        .into_iter()
        .flatten()
        .collect()
}

/// Reaps a task. Lost words have been reported; any other failure is an error.
fn ended(child: &mut Child) -> Result<()> {
    let status = child.wait()?;
    ensure!(matches!(status.code(), Some(0 | 1)), "it ended with {status}");
    Ok(())
}

/// Runs short tasks; each counts as a pass.
fn run_sequentially(task: &TaskSpec, number: usize, says: &TaskEventSender) {
    for _ in 0..task.sequential_processes {
        let word = short(task, number, says);
        let word =
            word.map_or_else(|why| TaskEvent::Failed(format!("{why:#}")), |()| TaskEvent::Pass);
        if says.send((number, word)).is_err() {
            return;
        }
    }
    for word in [TaskEvent::Done, TaskEvent::Ended] {
        let _ = says.send((number, word)); // as above
    }
}

fn short(task: &TaskSpec, number: usize, says: &TaskEventSender) -> Result<()> {
    let mut child = command(task)?.spawn().context("cannot start a short task")?;
    let out = child.stdout.take().context("no standard output")?;
    for line in BufReader::new(out).lines() {
        let line: Value = serde_json::from_str(&line?).context("a line that is not JSON")?;
        for word in
            parse_events(&line).into_iter().filter(|word| matches!(word, TaskEvent::Mismatches(_)))
        {
            says.send((number, word))?;
        }
    }
    ended(&mut child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_runner::BalancerSpec;
    use serde_json::json;

    /// Goal: the lines that the stream prints are understood.
    #[test]
    fn lines_of_the_stream() {
        assert_eq!(parse_events(&json!({"ready": true, "pid": 1})), [TaskEvent::Ready]);
        assert_eq!(parse_events(&json!({"thread": 1, "pass": 2})), [TaskEvent::Pass]);
        assert_eq!(parse_events(&json!({"done": true, "mismatches": 0})), [TaskEvent::Done]);
        assert_eq!(
            parse_events(&json!({"done": true, "mismatches": 3})),
            [TaskEvent::Mismatches(3), TaskEvent::Done]
        );
    }

    fn run_spec(line: &str, in_a_row: u32) -> RunSpec {
        let command = ["sh", "-c", line].map(str::to_owned).into();
        let task = TaskSpec {
            command,
            start_node: None,
            manual_arguments: Vec::new(),
            sequential_processes: in_a_row,
        };
        RunSpec {
            tasks: vec![task],
            balancer: BalancerSpec::default(),
            balancer_lead_ms: 0,
            sample_interval_ms: 10,
        }
    }

    fn said(task_set: &mut TaskSet) -> Vec<TaskEvent> {
        let mut words = Vec::new();
        while !matches!(words.last(), Some(TaskEvent::Ended | TaskEvent::Failed(_))) {
            words.push(task_set.next_event(Duration::from_secs(60)).unwrap().1);
        }
        words
    }

    /// Goal: a task begins when told to, and its messages are read and counted; if it dies, that is
    /// an error.
    #[test]
    fn one_task_from_start_to_end() {
        let line = r#"echo '{"ready": 1}'; read go
            echo '{"pass": 1}'; echo '{"done": 1, "mismatches": 2}'"#;
        let mut task_set = TaskSet::start(&run_spec(line, 0)).unwrap();
        task_set.await_ready().unwrap();
        assert_eq!(task_set.pids().len(), 1);
        task_set.begin().unwrap();
        assert_eq!(
            said(&mut task_set),
            [TaskEvent::Pass, TaskEvent::Mismatches(2), TaskEvent::Done, TaskEvent::Ended]
        );
        task_set.lift_confinement().unwrap();
        assert_eq!((task_set.passes, task_set.mismatches), (1, 2));
        task_set.await_end().unwrap();
        let mut task_set =
            TaskSet::start(&run_spec(r#"echo '{"ready": 1}'; read go; exit 3"#, 0)).unwrap();
        task_set.await_ready().unwrap();
        task_set.begin().unwrap();
        assert!(matches!(&said(&mut task_set)[..], [TaskEvent::Failed(why)] if why.contains("3")));
    }

    /// Goal: short tasks run as often as requested, each a pass.
    #[test]
    fn short_tasks_in_a_row() {
        let mut task_set =
            TaskSet::start(&run_spec(r#"echo '{"mismatches": 1}'; exit 1"#, 3)).unwrap();
        task_set.await_ready().unwrap();
        task_set.begin().unwrap();
        task_set.await_end().unwrap();
        assert_eq!((task_set.passes, task_set.mismatches, task_set.pids().len()), (3, 3, 0));
    }
}
