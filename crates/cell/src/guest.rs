//! The channel to the resident guest: one request at a time, each answered before the next is sent.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use countersign_types::MAX_FRAME;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};

use crate::CellError;

/// The most descriptors that one request carries.
pub(crate) const MAX_FDS: usize = 64;
/// Requests that may wait in line.
const LINE: usize = 16;

/// How long to wait for the launcher's word on a guest that ended.
const LAST_WORDS_WAIT: Duration = Duration::from_secs(1);

type Answer = Result<Vec<u8>, CellError>;

struct Asked {
    request: Vec<u8>,
    fds: Vec<OwnedFd>,
    reply: oneshot::Sender<Answer>,
}

/// Hands requests to the task that owns the channel. A caller that goes away does not tear a request apart.
#[derive(Clone, Debug)]
pub(crate) struct Guest(mpsc::Sender<Asked>);

impl Guest {
    /// Takes the controller's end. The task ends, and the channel is closed, when the last handle is dropped.
    pub(crate) fn start(mut channel: UnixStream, mut last_words: watch::Receiver<Option<String>>) -> Self {
        let (sender, mut line) = mpsc::channel::<Asked>(LINE);
        tokio::spawn(async move {
            while let Some(asked) = line.recv().await {
                let mut answer = exchange(&mut channel, &asked.request, &asked.fds).await;
                if let Err(CellError::Died(what)) = &mut answer {
                    // The launcher tells how it died on another socket, a moment later.
                    let told =
                        tokio::time::timeout(LAST_WORDS_WAIT, last_words.wait_for(Option::is_some)).await;
                    if let Ok(Ok(words)) = told {
                        what.push_str(": ");
                        what.push_str(words.as_deref().unwrap_or_default());
                    }
                }
                let broken = answer.is_err();
                // Nobody may be waiting any more; the exchange had to be finished all the same.
                drop(asked.reply.send(answer));
                if broken {
                    // What is left in the channel belongs to no request.
                    return;
                }
            }
        });
        Self(sender)
    }

    pub(crate) async fn ask(&self, request: Vec<u8>, fds: Vec<OwnedFd>) -> Answer {
        // Refused before anything is sent, so that the channel stays usable.
        if request.len() > MAX_FRAME {
            return Err(CellError::Protocol(format!(
                "a request of {} bytes; the bound is {MAX_FRAME}",
                request.len()
            )));
        }
        if fds.len() > MAX_FDS {
            return Err(CellError::Protocol(format!(
                "a request with {} descriptors; the bound is {MAX_FDS}",
                fds.len()
            )));
        }
        let gone = || CellError::Died("its guest is gone".to_owned());
        let (reply, answer) = oneshot::channel();
        self.0.send(Asked { request, fds, reply }).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

async fn exchange(channel: &mut UnixStream, request: &[u8], fds: &[OwnedFd]) -> Answer {
    let io = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
            CellError::Died("its guest ended".to_owned())
        }
        _ => CellError::Io { what: "talking to the guest".to_owned(), source: error },
    };
    send_frame(channel, request, fds).await.map_err(io)?;
    let length = channel.read_u32().await.map_err(io)? as usize;
    if length > MAX_FRAME {
        return Err(CellError::Protocol(format!("a reply of {length} bytes; the bound is {MAX_FRAME}")));
    }
    // Grows with what really comes, not with what was announced.
    let mut reply = vec![];
    (&mut *channel).take(length as u64).read_to_end(&mut reply).await.map_err(io)?;
    if reply.len() < length {
        return Err(CellError::Died("its guest ended in the middle of a reply".to_owned()));
    }
    Ok(reply)
}

/// Writes one frame; the descriptors ride with its first byte.
pub(crate) async fn send_frame(socket: &mut UnixStream, body: &[u8], fds: &[OwnedFd]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(|_| io::ErrorKind::InvalidInput)?.to_be_bytes();
    let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
    let first = |socket: &UnixStream| {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !borrowed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&borrowed)) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        Ok(rustix::net::sendmsg(socket, &[IoSlice::new(&length), IoSlice::new(body)], &mut control, flags)?)
    };
    let sent = socket.async_io(Interest::WRITABLE, || first(socket)).await?;
    let (prefix_left, body_done) =
        (length.get(sent..).unwrap_or_default(), sent.saturating_sub(length.len()));
    socket.write_all(prefix_left).await?;
    socket.write_all(body.get(body_done..).unwrap_or_default()).await
}
