//! Where the exporter has its metrics from: the agent.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nodeward_model::Escape as _;

use crate::client::{Client, ClientError};
use crate::metrics;

/// Time in which the agent must answer. Prometheus waits for 10 s.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which an answer is handed out: a storm of requests is not passed on.
const FRESH: Duration = Duration::from_secs(1);

/// The metrics of an agent, or of its absence.
pub struct MetricsSource {
    agent: PathBuf,
    last: Mutex<Option<LastAnswer>>,
}

struct LastAnswer {
    at: Instant,
    text: String,
    is_up: bool,
}

impl MetricsSource {
    /// Creates it; asks nothing yet.
    pub fn new(agent: &Path) -> Self {
        Self { agent: agent.to_owned(), last: Mutex::default() }
    }

    /// Returns the metrics as text, with one that tells whether the agent answered. Clients that
    /// ask at the same time have the same answer.
    pub fn metrics(&self, tell: fn(&str)) -> String {
        let came = Instant::now();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last
            && (last.at >= came || last.at.elapsed() < FRESH)
        {
            return last.text.clone();
        }
        let asked = self.ask();
        let was_up = last.as_ref().is_none_or(|last| last.is_up);
        match &asked {
            Err(error) if was_up => tell(&format!("{error}; nodeward_up is 0 until then")),
            Ok(_) if !was_up => tell(&format!("{} answers again", self.agent.escaped())),
            _ => {}
        }
        let is_up = asked.is_ok();
        let text = metrics::up(is_up) + &asked.unwrap_or_default();
        *last = Some(LastAnswer { at: Instant::now(), text: text.clone(), is_up });
        text
    }

    fn ask(&self) -> Result<String, ClientError> {
        Client::connect_for(&self.agent, TIMEOUT)?.metrics()
    }
}
