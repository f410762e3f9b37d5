//! What clients send to the agent: any bytes are cut into messages, each of which is a call or
//! refused with a reason. The first byte says how many bytes each read has.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nodeward_agent::limits::MESSAGE_BYTES_MAX;
use nodeward_agent::{ClientRequest, MessageBuffer};

fuzz_target!(|input: &[u8]| {
    let Some((&first, bytes)) = input.split_first() else { return };
    let mut buffer = MessageBuffer::default();
    for piece in bytes.chunks(usize::from(first) + 1) {
        buffer.push(piece);
        loop {
            match buffer.take() {
                Ok(Some(message)) => {
                    assert!(message.len() <= MESSAGE_BYTES_MAX && !message.contains(&0));
                    match ClientRequest::parse(message).and_then(|request| request.call) {
                        Ok(_) => {}
                        Err(error) => assert!(!error.reply().error.unwrap().is_empty()),
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});
