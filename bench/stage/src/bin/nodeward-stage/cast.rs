//! The tasks of a run: starts them, lets them begin, reads their messages, and waits for their end.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nodeward_model::Cpumask;
use nodeward_stage::affinity;
use nodeward_stage::{Play, Task};
use serde_json::Value;

/// Timeout for a task to free its memory.
const PATIENCE: Duration = Duration::from_secs(120);

/// A message of a task.
#[derive(Debug, PartialEq, Eq)]
pub enum Word {
    /// Its memory is in place.
    Ready,
    /// A thread has finished one more pass, or a short task has ended.
    Pass,
    /// This many words had a wrong value.
    Lost(u64),
    /// Its work is done.
    Done,
    /// It has ended and is reaped.
    Ended,
    /// It ended with an error.
    Failed(String),
}

type Says = Sender<(usize, Word)>;

/// All tasks of a run.
pub struct Cast {
    tasks: Vec<Task>,
    /// For each task that is one process: its process id, and the pipe that lets it begin.
    members: Vec<Option<Member>>,
    says: Says,
    heard: Receiver<(usize, Word)>,
    /// Number of passes so far.
    pub passes: u64,
    /// Number of words with a wrong value.
    pub mismatches: u64,
    /// Number of tasks that have ended.
    ended: usize,
}

struct Member {
    pid: u32,
    go: std::process::ChildStdin,
}

impl Cast {
    /// Starts the tasks, except those that run in a row.
    pub fn start(play: &Play) -> Result<Self> {
        let (says, heard) = channel();
        let mut tasks = play.tasks.clone();
        if play.balancer.by_hand {
            tasks.iter_mut().for_each(|task| task.command.append(&mut task.by_hand));
        }
        let all = affinity::all_cpus()?;
        let mut members = Vec::new();
        for (number, task) in tasks.iter().enumerate() {
            let confined = task.starts_on.filter(|_| !play.balancer.by_hand);
            let cpus = confined.map_or(Ok(all.clone()), affinity::cpus_of)?;
            let member = match task.in_a_row {
                0 => Some(start(task, number, &cpus, &says)?),
                _ => None,
            };
            members.push(member);
        }
        affinity::confine_this_thread(&all)?;
        Ok(Self { tasks, members, says, heard, passes: 0, mismatches: 0, ended: 0 })
    }

    /// Returns the process ids of those tasks that have one.
    pub fn pids(&self) -> Vec<u32> {
        self.members.iter().flatten().map(|member| member.pid).collect()
    }

    /// Waits until the memory of all tasks is in place.
    pub fn await_ready(&mut self) -> Result<()> {
        let mut missing = self.members.iter().flatten().count();
        while missing > 0 {
            match self.heard.recv().context("the tasks are gone")? {
                (_, Word::Ready) => missing -= 1,
                (task, word) => bail!("task {task} said {word:?} before it began"),
            }
        }
        Ok(())
    }

    /// Lets all tasks begin.
    pub fn begin(&mut self) -> Result<()> {
        for member in self.members.iter_mut().flatten() {
            member.go.write_all(b"go\n").context("a task does not listen")?;
        }
        for (number, task) in self.tasks.iter().enumerate().filter(|(_, task)| task.in_a_row > 0) {
            let (task, says) = (task.clone(), self.says.clone());
            thread::spawn(move || one_after_the_other(&task, number, &says));
        }
        Ok(())
    }

    /// Lets tasks that had to begin on a node use every CPU. A task that has ended already is no
    /// error.
    pub fn set_free(&self) -> Result<()> {
        let all = affinity::all_cpus()?;
        let members = self.tasks.iter().zip(&self.members);
        let confined = members.filter(|(task, _)| task.starts_on.is_some());
        for pid in confined.filter_map(|(_, member)| Some(member.as_ref()?.pid)) {
            let freed = affinity::confine(pid, &all);
            if freed.is_err() && Path::new(&format!("/proc/{pid}")).exists() {
                freed.context("cannot let a task use all CPUs")?;
            }
        }
        Ok(())
    }

    /// Waits for the next message of any task, and counts it.
    pub fn hear(&mut self, patience: Duration) -> Result<(usize, Word), RecvTimeoutError> {
        let (task, word) = self.heard.recv_timeout(patience)?;
        match word {
            Word::Pass => self.passes += 1,
            Word::Lost(words) => self.mismatches += words,
            Word::Ended => self.ended += 1,
            _ => {}
        }
        Ok((task, word))
    }

    /// Waits until all tasks have ended, after their work is done.
    pub fn await_end(&mut self) -> Result<()> {
        while self.ended < self.tasks.len() {
            if let (task, Word::Failed(why)) = self.hear(PATIENCE).context("tasks do not end")? {
                bail!("task {task}: {why}");
            }
        }
        Ok(())
    }
}

/// Starts a process on some CPUs, which it inherits from this thread.
fn start(task: &Task, number: usize, cpus: &Cpumask, says: &Says) -> Result<Member> {
    affinity::confine_this_thread(cpus)?;
    let mut child = command(task)?.stdin(Stdio::piped()).spawn().context(task.command.join(" "))?;
    let pid = child.id();
    let (go, out) = (child.stdin.take(), child.stdout.take());
    let (go, out) = (go.context("no standard input")?, out.context("no standard output")?);
    let says = says.clone();
    thread::spawn(move || {
        let last = listen(out, number, &says).and_then(|()| ended(&mut child));
        let last = last.map_or_else(|why| Word::Failed(format!("{why:#}")), |()| Word::Ended);
        let _ = says.send((number, last)); // the receiver is gone if another task failed
    });
    Ok(Member { pid, go })
}

fn command(task: &Task) -> Result<Command> {
    let (program, arguments) = task.command.split_first().context("a task without a command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdout(Stdio::piped()).stdin(Stdio::null());
    Ok(command)
}

/// Passes on the messages of a task until its output ends.
fn listen(out: ChildStdout, number: usize, says: &Says) -> Result<()> {
    for line in BufReader::new(out).lines() {
        let line: Value = serde_json::from_str(&line?).context("a line that is not JSON")?;
        for word in words(&line) {
            says.send((number, word))?;
        }
    }
    Ok(())
}

fn words(line: &Value) -> Vec<Word> {
    let lost = line.get("mismatches").and_then(Value::as_u64).filter(|&lost| lost > 0);
    let said = |key: &str, word: Word| line.get(key).is_some().then_some(word);
    let (ready, pass) = (said("ready", Word::Ready), said("pass", Word::Pass));
    [ready, pass, lost.map(Word::Lost), said("done", Word::Done)].into_iter().flatten().collect()
}

/// Reaps a task. Lost words have been reported; any other failure is an error.
fn ended(child: &mut Child) -> Result<()> {
    let status = child.wait()?;
    ensure!(matches!(status.code(), Some(0 | 1)), "it ended with {status}");
    Ok(())
}

/// Runs short tasks; each counts as a pass.
fn one_after_the_other(task: &Task, number: usize, says: &Says) {
    for _ in 0..task.in_a_row {
        let word = short(task, number, says);
        let word = word.map_or_else(|why| Word::Failed(format!("{why:#}")), |()| Word::Pass);
        if says.send((number, word)).is_err() {
            return;
        }
    }
    for word in [Word::Done, Word::Ended] {
        let _ = says.send((number, word)); // as above
    }
}

fn short(task: &Task, number: usize, says: &Says) -> Result<()> {
    let mut child = command(task)?.spawn().context("cannot start a short task")?;
    let out = child.stdout.take().context("no standard output")?;
    for line in BufReader::new(out).lines() {
        let line: Value = serde_json::from_str(&line?).context("a line that is not JSON")?;
        for word in words(&line).into_iter().filter(|word| matches!(word, Word::Lost(_))) {
            says.send((number, word))?;
        }
    }
    ended(&mut child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nodeward_stage::Balancer;
    use serde_json::json;

    /// Goal: the lines that the stream prints are understood.
    #[test]
    fn lines_of_the_stream() {
        assert_eq!(words(&json!({"ready": true, "pid": 1})), [Word::Ready]);
        assert_eq!(words(&json!({"thread": 1, "pass": 2})), [Word::Pass]);
        assert_eq!(words(&json!({"done": true, "mismatches": 0})), [Word::Done]);
        assert_eq!(words(&json!({"done": true, "mismatches": 3})), [Word::Lost(3), Word::Done]);
    }

    fn play(line: &str, in_a_row: u32) -> Play {
        let command = ["sh", "-c", line].map(str::to_owned).into();
        let task = Task { command, starts_on: None, by_hand: Vec::new(), in_a_row };
        Play { tasks: vec![task], balancer: Balancer::default(), lead_ms: 0, look_ms: 10 }
    }

    fn said(cast: &mut Cast) -> Vec<Word> {
        let mut words = Vec::new();
        while !matches!(words.last(), Some(Word::Ended | Word::Failed(_))) {
            words.push(cast.hear(Duration::from_secs(60)).unwrap().1);
        }
        words
    }

    /// Goal: a task begins when told to, and its messages are read and counted; if it dies, that is
    /// an error.
    #[test]
    fn one_task_from_start_to_end() {
        let line = r#"echo '{"ready": 1}'; read go
            echo '{"pass": 1}'; echo '{"done": 1, "mismatches": 2}'"#;
        let mut cast = Cast::start(&play(line, 0)).unwrap();
        cast.await_ready().unwrap();
        assert_eq!(cast.pids().len(), 1);
        cast.begin().unwrap();
        assert_eq!(said(&mut cast), [Word::Pass, Word::Lost(2), Word::Done, Word::Ended]);
        cast.set_free().unwrap();
        assert_eq!((cast.passes, cast.mismatches), (1, 2));
        cast.await_end().unwrap();
        let mut cast = Cast::start(&play(r#"echo '{"ready": 1}'; read go; exit 3"#, 0)).unwrap();
        cast.await_ready().unwrap();
        cast.begin().unwrap();
        assert!(matches!(&said(&mut cast)[..], [Word::Failed(why)] if why.contains("3")));
    }

    /// Goal: short tasks run as often as requested, each a pass.
    #[test]
    fn short_tasks_in_a_row() {
        let mut cast = Cast::start(&play(r#"echo '{"mismatches": 1}'; exit 1"#, 3)).unwrap();
        cast.await_ready().unwrap();
        cast.begin().unwrap();
        cast.await_end().unwrap();
        assert_eq!((cast.passes, cast.mismatches, cast.pids().len()), (3, 3, 0));
    }
}
