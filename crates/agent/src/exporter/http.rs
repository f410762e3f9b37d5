//! One request, and its answer. What a client sends is untrusted.

use httparse::{EMPTY_HEADER, Request, Status};

/// Bytes of a request without its body, which is not read.
pub const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Header lines of a request.
const HEADERS_MAX: usize = 64;
/// Where metrics are.
pub const PATH: &str = "/metrics";
/// The type of Prometheus' text format.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    status: &'static str,
    content_type: &'static str,
    body: String,
    /// Only the header is wanted.
    is_head: bool,
}

impl Response {
    /// Returns it as it goes over the wire.
    pub fn bytes(&self) -> Vec<u8> {
        let Self { status, content_type, body, is_head } = self;
        let allow = if *status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n{allow}\
             Connection: close\r\n\r\n",
            body.len()
        );
        let body = if *is_head { "" } else { body };
        [head.as_bytes(), body.as_bytes()].concat()
    }

    fn message(status: &'static str, body: &str) -> Self {
        Self { status, content_type: TEXT_TYPE, body: format!("{body}\n"), is_head: false }
    }
}

const NOT_ALLOWED: &str = "405 Method Not Allowed";

/// Answers what has come of a request; `None` if there is more of it to come.
pub fn answer(bytes: &[u8], metrics: impl FnOnce() -> String) -> Option<Response> {
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = Request::new(&mut headers);
    match request.parse(bytes) {
        Ok(Status::Complete(_)) => Some(answer_request(&request, metrics)),
        Ok(Status::Partial) if bytes.len() < REQUEST_BYTES_MAX => None,
        Ok(Status::Partial) => Some(Response::message(
            "431 Request Header Fields Too Large",
            "the request is too long",
        )),
        Err(_) => Some(Response::message("400 Bad Request", "this is no HTTP request")),
    }
}

fn answer_request(request: &Request<'_, '_>, metrics: impl FnOnce() -> String) -> Response {
    let path = request.path.unwrap_or_default();
    let path = path.split_once('?').map_or(path, |(path, _)| path);
    let is_head = request.method == Some("HEAD");
    if path != PATH {
        let response = Response::message("404 Not Found", "metrics are at /metrics");
        return Response { is_head, ..response };
    }
    match request.method {
        Some("GET" | "HEAD") => {
            Response { status: "200 OK", content_type: METRICS_TYPE, body: metrics(), is_head }
        }
        _ => Response::message(NOT_ALLOWED, "metrics can only be read"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn told(request: &str) -> Option<String> {
        let response = answer(request.as_bytes(), || "nodeward_up 1\n".to_owned())?;
        Some(String::from_utf8(response.bytes()).unwrap())
    }

    /// Goal: metrics are at one path, with the type of the text format and their length; a query
    /// changes nothing, and HEAD has no body.
    #[test]
    fn metrics_are_at_one_path() {
        let got = told("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
                    Content-Length: 14\r\nConnection: close\r\n\r\n";
        assert_eq!(got, format!("{head}nodeward_up 1\n"));
        assert_eq!(told("GET /metrics?a=b HTTP/1.0\r\n\r\n").as_ref(), Some(&got));
        assert_eq!(told("HEAD /metrics HTTP/1.1\r\n\r\n").as_deref(), Some(head));
    }

    /// Goal: anything else is refused with a status that says why.
    #[test]
    fn nothing_else_is_served() {
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
            ("POST / HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("nonsense\r\n\r\n", "400"),
            ("GET /metrics HTTP/9.9\r\n\r\n", "400"),
            ("\0\0\0\0", "400"),
        ] {
            let told = told(request).unwrap();
            assert!(told.starts_with(&format!("HTTP/1.1 {status} ")), "{request:?}: {told}");
        }
        assert!(told("POST /metrics HTTP/1.1\r\n\r\n").unwrap().contains("Allow: GET, HEAD\r\n"));
        let lines = "a: b\r\n".repeat(HEADERS_MAX + 1);
        let told = told(&format!("GET /metrics HTTP/1.1\r\n{lines}\r\n")).unwrap();
        assert!(told.starts_with("HTTP/1.1 400 "), "{told}");
    }

    /// Goal: half a request waits for the other half; one that never ends is refused at the limit.
    #[test]
    fn a_request_may_come_in_parts() {
        assert_eq!(told("GET /met"), None);
        assert_eq!(told("GET /metrics HTTP/1.1\r\nHost: x\r\n"), None);
        let endless = format!("GET /metrics HTTP/1.1\r\na: {}", "x".repeat(REQUEST_BYTES_MAX));
        assert!(told(&endless).unwrap().starts_with("HTTP/1.1 431 "));
    }

    proptest! {
        /// Goal: any bytes are waited for, answered or refused, and every answer is a whole one.
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(response) = answer(&bytes, String::new) {
                let text = String::from_utf8(response.bytes()).unwrap();
                let (head, _) = text.split_once("\r\n\r\n").unwrap();
                prop_assert!(head.starts_with("HTTP/1.1 ") && head.contains("Content-Length: "));
            }
        }
    }
}
