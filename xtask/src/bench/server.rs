//! A model endpoint on loopback that answers from a script and says when each request came.
//!
//! It speaks just enough HTTP for one client that sends whole requests with a `Content-Length`.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use serde_json::{Value, json};

use crate::sh::{Context, Result};

/// When a request had come in whole, and when its reply was handed to the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    pub arrived: Instant,
    pub answered: Instant,
}

/// What the model says.
#[derive(Clone, Debug)]
pub enum Reply {
    Text(&'static str),
    ReadFile(String),
}

/// Accepts connections until the process ends; one at a time, as one client makes them.
pub struct Server {
    pub port: u16,
    pub exchanges: Receiver<Exchange>,
}

impl Server {
    /// `reply` is asked with 0, 1, 2, … for each request in turn.
    ///
    /// # Errors
    /// When no port of loopback can be had.
    pub fn start(reply: impl FnMut(usize) -> Reply + Send + 'static) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening on loopback")?;
        let port = listener.local_addr().context("listening on loopback")?.port();
        let (sender, exchanges) = channel();
        std::thread::spawn(move || serve(&listener, reply, &sender));
        Ok(Self { port, exchanges })
    }
}

fn serve(listener: &TcpListener, mut reply: impl FnMut(usize) -> Reply, sender: &Sender<Exchange>) {
    let mut count = 0;
    for stream in listener.incoming() {
        let Ok(stream) = stream else { return };
        // A client that goes away ends its connection, not the server.
        let _ = converse(stream, &mut count, &mut reply, sender);
    }
}

fn converse(
    stream: TcpStream,
    count: &mut usize,
    reply: &mut impl FnMut(usize) -> Reply,
    sender: &Sender<Exchange>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    while read_request(&mut reader)? {
        let arrived = Instant::now();
        let body = completion(*count, &reply(*count)).to_string();
        *count += 1;
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        writer.write_all(format!("{head}{body}").as_bytes())?;
        if sender.send(Exchange { arrived, answered: Instant::now() }).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// Reads one whole request; false at the end of the connection.
fn read_request(reader: &mut impl BufRead) -> io::Result<bool> {
    let mut length = 0;
    let mut line = String::new();
    let mut lines = 0;
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(false);
        }
        let trimmed = line.trim_end();
        if trimmed.is_empty() {
            if lines == 0 {
                continue;
            }
            break;
        }
        lines += 1;
        if let Some((name, value)) = trimmed.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().map_err(io::Error::other)?;
        }
    }
    io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
    Ok(true)
}

/// A Chat Completions response.
fn completion(index: usize, reply: &Reply) -> Value {
    let (message, finish) = match reply {
        Reply::Text(text) => (json!({ "role": "assistant", "content": text }), "stop"),
        Reply::ReadFile(path) => {
            let arguments = json!({ "path": path }).to_string();
            let call = json!({ "id": format!("call_{index}"), "type": "function",
                               "function": { "name": "read_file", "arguments": arguments } });
            (json!({ "role": "assistant", "content": null, "tool_calls": [call] }), "tool_calls")
        }
    };
    json!({ "id": format!("chatcmpl-{index}"), "object": "chat.completion", "created": 0, "model": "bench",
            "choices": [{ "index": 0, "message": message, "finish_reason": finish }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_requests_on_one_connection_get_the_script_in_order() {
        let server = Server::start(|index| match index {
            0 => Reply::ReadFile("a.txt".into()),
            _ => Reply::Text("done"),
        })
        .unwrap();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port)).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut bodies = Vec::new();
        for _ in 0..2 {
            stream.write_all(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            let mut length = 0;
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.strip_prefix("Content-Length: ") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            bodies.push(serde_json::from_slice::<Value>(&body).unwrap());
        }
        assert_eq!(bodies[0]["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "read_file");
        assert_eq!(bodies[1]["choices"][0]["message"]["content"], "done");
        let (first, second) = (server.exchanges.recv().unwrap(), server.exchanges.recv().unwrap());
        assert!(first.arrived <= first.answered && first.answered <= second.arrived);
    }
}
