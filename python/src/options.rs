//! What arguments stand for: nodes by number or by a device near them, times, rates, sizes.

use std::time::Duration;

use nodeward::{Budget, Device, DeviceFailure, NodeId, Nodemask, Placement, units};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{Failure, invalid, unknown_node};

/// Where memory is to go.
#[derive(Clone, Copy, Debug)]
pub enum Destination {
    /// To a node, now.
    Node(NodeId),
    /// To the node of the thread that touches it next.
    Touch,
}

/// Parses `1`, `"near:gpu:0"` or `"touch"`.
pub fn destination(node: &Bound<'_, PyAny>) -> PyResult<Destination> {
    match text(node)?.as_deref() {
        Some("touch") => Ok(Destination::Touch),
        _ => one_node(node).map(Destination::Node),
    }
}

/// Parses where new memory is to be: nothing, `1`, `"interleave"` or `"near:gpu:0"`.
pub fn placement(node: Option<&Bound<'_, PyAny>>) -> PyResult<Placement> {
    let Some(node) = node else { return Ok(Placement::Local) };
    match text(node)?.as_deref() {
        Some("interleave") => Ok(Placement::Interleaved(nodes()?)),
        _ => one_node(node).map(Placement::Node),
    }
}

/// Parses `1` or `"near:gpu:0"`.
pub fn one_node(node: &Bound<'_, PyAny>) -> PyResult<NodeId> {
    let wrong = |shown: &str| {
        unknown_node(format!(
            "{shown} is no node; give a number that nodeward.nodes() has, or near:DEVICE such as \
             'near:gpu:0'"
        ))
    };
    match text(node)? {
        Some(name) if name.contains(':') => {
            near(name.strip_prefix("near:").unwrap_or(&name)).map_err(PyErr::from)
        }
        Some(name) => Err(wrong(&format!("{name:?}"))),
        None => node.extract().map(NodeId).map_err(|_| wrong(&shown(node))),
    }
}

/// Returns the node near a device.
pub fn near(device: &str) -> Result<NodeId, Failure> {
    let device: Device = device.parse().map_err(DeviceFailure::from)?;
    Ok(nodeward::near(&device)?)
}

/// Returns the nodes that this process may use.
pub fn nodes() -> Result<Nodemask, Failure> {
    Ok(nodeward::nodes()?)
}

/// Parses the limits of a move.
pub fn budget(
    stall: Option<&Bound<'_, PyAny>>,
    rate: Option<&Bound<'_, PyAny>>,
) -> PyResult<Budget> {
    Ok(Budget {
        bytes_per_s: rate.map(bytes_per_s).transpose()?,
        stall: stall.map(time).transpose()?,
    })
}

/// Parses `"64MiB"` or a number of bytes.
pub fn bytes(size: &Bound<'_, PyAny>) -> PyResult<u64> {
    match text(size)? {
        Some(size) => Ok(units::parse_bytes(&size).map_err(Failure::from)?),
        None => size.extract().map_err(|_| {
            invalid(format!("{} is no size; give bytes, or text such as '64MiB'", shown(size)))
        }),
    }
}

fn time(time: &Bound<'_, PyAny>) -> PyResult<Duration> {
    if let Some(text) = text(time)? {
        let ns = units::parse_duration_ns(&text).map_err(Failure::from)?;
        return Ok(Duration::from_nanos(ns));
    }
    let seconds = time.extract().ok().and_then(|it| Duration::try_from_secs_f64(it).ok());
    seconds.filter(|time| !time.is_zero()).ok_or_else(|| {
        invalid(format!("{} is no time; give seconds, or text such as '1ms'", shown(time)))
    })
}

fn bytes_per_s(rate: &Bound<'_, PyAny>) -> PyResult<u64> {
    if let Some(text) = text(rate)? {
        return Ok(units::parse_rate(&text).map_err(Failure::from)?);
    }
    rate.extract().ok().filter(|&rate| rate > 0).ok_or_else(|| {
        invalid(format!("{} is no rate; give bytes a second, or '500MB/s'", shown(rate)))
    })
}

fn text(value: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    value.cast::<PyString>().ok().map(|text| text.extract()).transpose()
}

/// Shows a value as Python does; its own code may do so, and fail.
fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "what was given".to_owned(), |text| text.to_string())
}
