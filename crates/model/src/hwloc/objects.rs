//! The objects in hwloc's XML, and the values of their attributes.

use std::str::FromStr;

use roxmltree::Node as Element;

use super::error::HwlocError;
use crate::mask::Id;

/// The objects of a saved machine, in document order.
pub struct TopologyReader<'a> {
    pub root: Element<'a, 'a>,
    pub objects: Vec<Element<'a, 'a>>,
    /// Version 1: the objects that are local to a node are nested inside it.
    pub is_version_1: bool,
}

impl<'a> TopologyReader<'a> {
    /// Returns the objects of a type.
    pub fn of_type(&self, name: &'static str) -> impl Iterator<Item = Element<'a, 'a>> {
        self.objects.iter().copied().filter(move |object| object.attribute("type") == Some(name))
    }
}

/// Returns the number of an object.
pub fn id_of<T: Id>(object: Element<'_, '_>) -> Result<T, HwlocError> {
    let number: u32 = required(object, "os_index")?;
    match number < T::LIMIT {
        true => Ok(T::from_number(number)),
        false => {
            let wanted = format!("a number below {}", T::LIMIT);
            Err(invalid_value(object, "os_index", &number.to_string(), &wanted))
        }
    }
}

/// Returns the value of an attribute that must be there.
pub fn required<T: FromStr>(object: Element<'_, '_>, name: &'static str) -> Result<T, HwlocError> {
    optional(object, name)?.ok_or_else(|| HwlocError::MissingAttribute {
        line: line_of(object),
        object: object.attribute("type").unwrap_or(object.tag_name().name()).to_owned(),
        attribute: name,
    })
}

/// Returns the value of an attribute, if it is there.
pub fn optional<T: FromStr>(
    object: Element<'_, '_>,
    name: &'static str,
) -> Result<Option<T>, HwlocError> {
    let Some(text) = object.attribute(name) else { return Ok(None) };
    text.trim().parse().map(Some).map_err(|_| invalid_value(object, name, text, "a number"))
}

/// Returns the error of a value.
pub fn invalid_value(
    element: Element<'_, '_>,
    name: &'static str,
    found: &str,
    wanted: &str,
) -> HwlocError {
    HwlocError::InvalidValue {
        line: line_of(element),
        name,
        found: found.chars().take(60).collect(),
        expected: wanted.to_owned(),
    }
}

fn line_of(element: Element<'_, '_>) -> u32 {
    element.document().text_pos_at(element.range().start).row
}
