//! Parses node strings as libnuma's `numa_parse_nodestring` does.
//!
//! ```text
//! 0,2      nodes 0 and 2            all     every allowed node
//! 0-3      nodes 0 to 3             !1      every allowed node except 1
//! +0-1     the first two of the allowed nodes, whatever their ids
//! !+0      every allowed node except the first
//! ```
//!
//! Signs may stand only in front, `!` before `+`. Numbers are C numbers: `0x1` is node 1 and `010`
//! is node 8. White space is allowed only before a number. The empty string is the empty set. A
//! range that runs backwards is its first node. `all` replaces the nodes before it and ends the
//! string. Every named node must be allowed; a range skips the nodes between its ends that are not.
//!
//! This parser differs from libnuma in four points on purpose:
//! - `!` removes nodes from the allowed ones. libnuma counts ids up to the *number* of nodes with
//!   memory; if the ids have holes, that yields nodes that do not exist and misses some that do.
//! - Numbers beyond 32 bits are refused; libnuma truncates them, so that 4294967297 is node 1.
//! - A minus is refused except before zero; libnuma wraps it, so that -4294967295 is node 1.
//! - Device names (`netdev:eth0`, `file:/path` ...) are refused: what they mean the machine tells.

use crate::{Escape as _, NodeId, Nodemask};

/// The nodes against which a node string is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodestringContext {
    /// The nodes of the machine.
    pub existing: Nodemask,
    /// The existing nodes on which the task may have memory (`Mems_allowed`).
    pub allowed: Nodemask,
    /// The largest id that this kernel could ever use.
    pub highest_possible: NodeId,
}

/// The reason why a node string was refused; its message says what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NodestringError {
    /// There is no number where one is required.
    #[error(
        "'{part}' is not a node; write numbers such as 0,2 or 0-3, or all; nodes here are {valid}"
    )]
    NotANode {
        /// The text found.
        part: String,
        /// The nodes that may be named.
        valid: Nodemask,
    },
    /// A list or range ends too early.
    #[error("a node is missing {position}; nodes here are {valid}")]
    Missing {
        /// The position where a node is required.
        position: String,
        /// The nodes that may be named.
        valid: Nodemask,
    },
    /// The text after a node neither continues nor ends the list.
    #[error(
        "'{}' behind '{}' cannot be read; separate nodes by a comma or a dash",
        rest.escaped(), read.escaped()
    )]
    Trailing {
        /// The part that was parsed.
        read: String,
        /// The part that was not parsed.
        rest: String,
    },
    /// A sign does not stand in front.
    #[error("'{sign}' may only stand in front of the whole list, as in {sign}0-1; move it there")]
    SignInside {
        /// The sign.
        sign: char,
    },
    /// No machine with this kernel can have the node.
    #[error("there is no node {node}; nodes here are {valid}")]
    AboveHighestNode {
        /// The requested node.
        node: u64,
        /// The nodes that may be named.
        valid: Nodemask,
    },
    /// The machine does not have the node.
    #[error("node {node} does not exist; nodes here are {valid}")]
    NoSuchNode {
        /// The requested node.
        node: NodeId,
        /// The nodes that may be named.
        valid: Nodemask,
    },
    /// The node exists, but this task may not use it, or it has no memory.
    #[error("node {node} is outside cpuset.mems or has no memory; allowed here are {valid}")]
    NotAllowed {
        /// The requested node.
        node: NodeId,
        /// The nodes that may be named.
        valid: Nodemask,
    },
    /// A position is not below the number of allowed nodes.
    #[error("+{position} is beyond the allowed nodes; positions run from 0 to {last}")]
    NoSuchPosition {
        /// The requested position.
        position: u64,
        /// The largest position.
        last: usize,
    },
}

/// Parses a node string into a set.
pub fn parse_nodestring(
    text: &str,
    context: &NodestringContext,
) -> Result<Nodemask, NodestringError> {
    Ok(parse_nodelist(text, context)?.into_iter().collect())
}

/// Parses a node string into a list: the nodes in the order of the text, each once. The nodes of a
/// range, of `all` and of `!` are in ascending order.
pub fn parse_nodelist(
    text: &str,
    context: &NodestringContext,
) -> Result<Vec<NodeId>, NodestringError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let (inverted, rest) = strip(text, '!');
    let (relative, rest) = strip(rest, '+');
    let list = NodestringParser { context, relative }.list(rest)?;
    if !inverted {
        return Ok(list);
    }
    Ok(context.allowed.without(&list.into_iter().collect()).iter().collect())
}

fn strip(text: &str, sign: char) -> (bool, &str) {
    text.strip_prefix(sign).map_or((false, text), |rest| (true, rest))
}

struct NodestringParser<'a> {
    context: &'a NodestringContext,
    relative: bool,
}

impl NodestringParser<'_> {
    fn list(&self, text: &str) -> Result<Vec<NodeId>, NodestringError> {
        let mut nodes = Vec::new();
        let mut rest = text;
        loop {
            if rest == "all" {
                return Ok(self.context.allowed.iter().collect());
            }
            let (part, behind) = self.part(rest, text)?;
            let new: Vec<_> = part.iter().filter(|node| !nodes.contains(node)).collect();
            nodes.extend(new);
            match behind.strip_prefix(',') {
                Some(next) => rest = next,
                None if behind.is_empty() => return Ok(nodes),
                None => return Err(trailing(text, behind)),
            }
        }
    }

    /// Parses a node or a range at the start of `rest`. Returns it with the text after it.
    fn part<'t>(&self, rest: &'t str, all: &str) -> Result<(Nodemask, &'t str), NodestringError> {
        let (first, behind) = self.node(rest, all)?;
        let Some(upper) = behind.strip_prefix('-') else {
            return Ok((Nodemask::from_iter([first]), behind));
        };
        let (last, behind) = self.node(upper, all)?;
        let allowed = &self.context.allowed;
        let between = allowed.iter().filter(|&node| first <= node && node <= last);
        Ok((between.chain([first]).collect(), behind))
    }

    fn node<'t>(&self, rest: &'t str, all: &str) -> Result<(NodeId, &'t str), NodestringError> {
        let (number, behind) = c_number(rest).ok_or_else(|| self.missing_number(rest, all))?;
        let Some(number) = number else {
            let part = rest[..rest.len() - behind.len()].to_owned();
            return Err(NodestringError::NotANode { part, valid: self.valid() });
        };
        let node =
            if self.relative { self.node_at_position(number)? } else { self.allowed_node(number)? };
        Ok((node, behind))
    }

    fn allowed_node(&self, number: u64) -> Result<NodeId, NodestringError> {
        let valid = self.valid();
        let highest = self.context.highest_possible;
        let node = match u32::try_from(number).map(NodeId) {
            Ok(node) if node <= highest => node,
            _ => return Err(NodestringError::AboveHighestNode { node: number, valid }),
        };
        match self.context.allowed.contains(node) {
            true => Ok(node),
            false if self.context.existing.contains(node) => {
                Err(NodestringError::NotAllowed { node, valid })
            }
            false => Err(NodestringError::NoSuchNode { node, valid }),
        }
    }

    /// Returns the allowed node at a position.
    fn node_at_position(&self, position: u64) -> Result<NodeId, NodestringError> {
        let allowed = &self.context.allowed;
        let last = allowed.len().saturating_sub(1);
        usize::try_from(position)
            .ok()
            .and_then(|position| allowed.iter().nth(position))
            .ok_or(NodestringError::NoSuchPosition { position, last })
    }

    fn missing_number(&self, rest: &str, all: &str) -> NodestringError {
        let part = rest.split(',').next().unwrap_or(rest);
        let valid = self.valid();
        match part.trim_start().chars().next() {
            Some(sign @ ('!' | '+')) => NodestringError::SignInside { sign },
            Some(_) => NodestringError::NotANode { part: part.to_owned(), valid },
            None => NodestringError::Missing { position: missing_position(rest, all), valid },
        }
    }

    fn valid(&self) -> Nodemask {
        self.context.allowed.clone()
    }
}

/// Describes in words the position where a number is missing.
fn missing_position(rest: &str, all: &str) -> String {
    let read = &all[..all.len() - rest.len()];
    match (read.is_empty(), rest.is_empty()) {
        (false, _) => format!("behind '{read}'"),
        (true, false) => format!("in front of '{}'", rest.trim_start()),
        (true, true) => "behind the sign".to_owned(),
    }
}

fn trailing(all: &str, rest: &str) -> NodestringError {
    let read = all[..all.len() - rest.len()].to_owned();
    NodestringError::Trailing { read, rest: rest.to_owned() }
}

/// Parses a number at the start of the text as strtoul does with base 0: white space, a sign, `0x`
/// for base 16 or `0` for base 8. Returns it with the text after it; `None` without digits. The
/// number is `None` if it is negative or does not fit.
fn c_number(text: &str) -> Option<(Option<u64>, &str)> {
    let spaces = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];
    let text = text.trim_start_matches(spaces);
    let (negative, text) = strip(text, '-');
    let text = if negative { text } else { strip(text, '+').1 };
    let (base, digits) = base_of(text);
    let end = digits.find(|c: char| !c.is_digit(base)).unwrap_or(digits.len());
    if end == 0 {
        return None;
    }
    let number = u64::from_str_radix(&digits[..end], base).ok();
    Some((number.filter(|&n| !negative || n == 0), &digits[end..]))
}

fn base_of(text: &str) -> (u32, &str) {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match hex.filter(|digits| digits.starts_with(|c: char| c.is_ascii_hexdigit())) {
        Some(digits) => (16, digits),
        None if text.starts_with('0') => (8, text),
        None => (10, text),
    }
}

#[cfg(test)]
mod tests;
