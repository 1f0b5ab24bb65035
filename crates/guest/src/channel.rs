//! Frames on the guest's channel: a Unix stream socket, a 32-bit big-endian length before each JSON text, file
//! descriptors with a frame's first byte.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use countersign_types::MAX_FRAME;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::protocol::MAX_FDS;

/// One end of a guest channel.
#[derive(Debug)]
pub struct Channel {
    socket: UnixStream,
}

/// A frame and the descriptors that came with it.
#[derive(Debug)]
pub struct Frame {
    pub bytes: Vec<u8>,
    pub files: Vec<File>,
}

impl Channel {
    #[must_use]
    pub const fn new(socket: UnixStream) -> Self {
        Self { socket }
    }

    /// The next frame. None at the end of the stream.
    ///
    /// # Errors
    /// The socket's; a frame longer than [`MAX_FRAME`] or torn is `InvalidData` or `UnexpectedEof`.
    pub fn receive(&mut self) -> io::Result<Option<Frame>> {
        let mut header = [0_u8; 4];
        let mut files = Vec::new();
        let mut filled = 0;
        while filled < header.len() {
            let read = self.receive_some(&mut header[filled..], &mut files)?;
            if read == 0 {
                return if filled == 0 { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
            }
            filled += read;
        }
        let length = u32::from_be_bytes(header) as usize;
        if length > MAX_FRAME {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the frame is longer than the protocol allows",
            ));
        }
        let mut bytes = Vec::with_capacity(length);
        (&mut self.socket).take(length as u64).read_to_end(&mut bytes)?;
        if bytes.len() < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Some(Frame { bytes, files }))
    }

    fn receive_some(&self, buffer: &mut [u8], files: &mut Vec<File>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut iov = [IoSliceMut::new(buffer)];
            match recvmsg(&self.socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                files.extend(fds.map(File::from));
            }
        }
        Ok(received.bytes)
    }

    /// # Errors
    /// The socket's; more than [`MAX_FDS`] descriptors or bytes beyond [`MAX_FRAME`] are `InvalidInput`.
    pub fn send(&mut self, bytes: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
        let length =
            u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= MAX_FRAME && fds.len() <= MAX_FDS);
        let Some(length) = length else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the frame is longer than the protocol allows",
            ));
        };
        let header = length.to_be_bytes();
        let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many file descriptors"));
        }
        let sent = loop {
            match sendmsg(&self.socket, &[IoSlice::new(&header)], &mut control, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                other => break other?,
            }
        };
        self.socket.write_all(&header[sent..])?;
        self.socket.write_all(bytes)
    }
}
