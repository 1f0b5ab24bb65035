//! Frames over Unix stream sockets: a 32-bit big-endian length, JSON, and descriptors that ride with the first byte.

use std::collections::VecDeque;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use countersign_types::MAX_FRAME;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;

use crate::error::{Context, JailError, Result};

/// The most descriptors in one message; the kernel takes 253.
pub const MAX_FDS: usize = 100;

const READ_CHUNK: usize = 64 * 1024;
const PREFIX: usize = 4;

/// What one look at a socket brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Fill {
    Data,
    Nothing,
    Eof,
}

/// Collects bytes and descriptors until frames are complete.
#[derive(Debug, Default)]
pub struct Receiver {
    bytes: Vec<u8>,
    fds: VecDeque<OwnedFd>,
}

impl Receiver {
    /// One `recvmsg`.
    pub fn fill(&mut self, socket: BorrowedFd<'_>) -> Result<Fill> {
        let mut chunk = vec![0_u8; READ_CHUNK];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let got = match rustix::net::recvmsg(socket, &mut [IoSliceMut::new(&mut chunk)], &mut control, flags)
        {
            Ok(got) => got.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Fill::Nothing),
            Err(Errno::CONNRESET) => return Ok(Fill::Eof),
            Err(error) => return Err(error).context(|| "reading a socket".to_owned()),
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        self.bytes.extend_from_slice(chunk.get(..got).unwrap_or_default());
        Ok(if got == 0 { Fill::Eof } else { Fill::Data })
    }

    /// The next complete frame's JSON.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(prefix) = self.bytes.first_chunk::<PREFIX>() else { return Ok(None) };
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > MAX_FRAME {
            return Err(JailError::Protocol(format!("a frame of {len} bytes is longer than {MAX_FRAME}")));
        }
        let Some(body) = self.bytes.get(PREFIX..PREFIX + len) else { return Ok(None) };
        let body = body.to_vec();
        self.bytes.drain(..PREFIX + len);
        Ok(Some(body))
    }

    /// The next descriptor, in the order in which they were sent.
    pub fn next_fd(&mut self) -> Result<OwnedFd> {
        self.fds
            .pop_front()
            .ok_or_else(|| JailError::Protocol("a descriptor is missing from a message".to_owned()))
    }
}

/// The bytes of one frame.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![0_u8; PREFIX];
    serde_json::to_writer(&mut bytes, message).map_err(|e| JailError::Protocol(e.to_string()))?;
    let len = bytes.len() - PREFIX;
    let prefix = u32::try_from(len).ok().filter(|_| len <= MAX_FRAME);
    let prefix =
        prefix.ok_or_else(|| JailError::Protocol(format!("a frame of {len} bytes is too long to send")))?;
    for (slot, byte) in bytes.iter_mut().zip(prefix.to_be_bytes()) {
        *slot = byte;
    }
    Ok(bytes)
}

/// Sends a whole frame on a blocking socket.
pub fn send(socket: BorrowedFd<'_>, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> Result<()> {
    let bytes = frame(message)?;
    let mut rest = bytes.as_slice();
    let mut fds = fds;
    while !rest.is_empty() {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(JailError::Protocol(format!(
                "{} descriptors are too many for one message",
                fds.len()
            )));
        }
        match rustix::net::sendmsg(socket, &[IoSlice::new(rest)], &mut control, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                rest = rest.get(sent..).unwrap_or_default();
                fds = &[];
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context(|| "writing a socket".to_owned()),
        }
    }
    Ok(())
}
