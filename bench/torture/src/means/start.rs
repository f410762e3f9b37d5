//! Other programs, started by vfork and exec.

use std::process::{Command, Stdio};

use super::{Made, Means, Site, one};
use crate::ground::Use;
use crate::hand::{Fault, Hand, failed};
use crate::lot::Lot;

pub const WHAT: &str = "other programs are started, by vfork and exec";

struct Start(Vec<Lot<'static>>);

pub fn make(site: &mut Site<'_>) -> Made {
    one(Start(site.ground.lots(Use::Plain)))
}

impl Means for Start {
    fn step(&mut self, hand: &mut Hand) -> Result<(), Fault> {
        let lot = hand.one_of(&mut self.0);
        hand.turn(lot)?;
        hand.post.does("exec", 0..0);
        let mut command = Command::new("/proc/self/exe");
        let status = command.arg("--version").stdout(Stdio::null()).status();
        let status = status.map_err(failed("exec"))?;
        if !status.success() {
            return Err(Fault::Failed(format!("a program that was started ended by {status}")));
        }
        hand.turn(lot)
    }

    fn lots(&mut self) -> &mut [Lot<'static>] {
        &mut self.0
    }
}
