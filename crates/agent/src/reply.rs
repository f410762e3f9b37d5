//! Replies as they are sent: JSON, and a zero byte behind it.

use serde::Serialize;

/// Most long replies have no more bytes, so that their buffer need not grow.
const LONG_REPLY_BYTES: usize = 4 << 10;

/// A reply of Varlink that has parameters only.
#[derive(Serialize)]
struct ParametersReply<'a, T> {
    parameters: &'a T,
}

/// Encodes a reply.
pub fn encode(reply: &impl Serialize) -> Vec<u8> {
    let mut bytes = serde_json::to_vec(reply).unwrap_or_default();
    bytes.push(0);
    bytes
}

/// Encodes a reply with these parameters.
pub fn encode_parameters(parameters: &impl Serialize) -> Vec<u8> {
    encode(&ParametersReply { parameters })
}

/// Encodes a reply whose parameters are the JSON object that a function appends.
///
/// # Errors
/// Those of the function.
pub fn encode_with<E>(append: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<Vec<u8>, E> {
    let mut bytes = Vec::with_capacity(LONG_REPLY_BYTES);
    bytes.extend_from_slice(b"{\"parameters\":");
    append(&mut bytes)?;
    bytes.extend_from_slice(b"}\0");
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use varlink::Reply;

    use super::*;

    /// Goal: whichever way parameters are encoded, the bytes are those of a reply of Varlink.
    #[test]
    fn replies_are_of_varlink() {
        let value = json!({ "pid": 7, "text": "a\u{0}\"b\nc" });
        let reply = Reply::parameters(Some(value.clone()));
        let mut expected = serde_json::to_vec(&reply).unwrap();
        expected.push(0);
        assert_eq!(encode(&reply), expected);
        assert_eq!(encode_parameters(&value), expected);
        let append = |bytes: &mut Vec<u8>| serde_json::to_writer(bytes, &value);
        assert_eq!(encode_with(append).unwrap(), expected);
        let zeros = expected.iter().filter(|&&byte| byte == 0).count();
        assert_eq!(zeros, 1, "a zero within text is escaped");
    }
}
