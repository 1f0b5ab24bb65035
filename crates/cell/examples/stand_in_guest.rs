//! For the tests of this crate only: a guest that answers each frame with the same bytes, after telling in front how
//! many descriptors came along and what it is. The real guest is `countersign-guest`.

use std::io::{IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};

fn main() -> std::io::Result<()> {
    let mut channel = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    loop {
        let mut prefix = [0_u8; 4];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(64))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::net::recvmsg(
            &channel,
            &mut [IoSliceMut::new(&mut prefix)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
        )?;
        if got.bytes == 0 {
            return Ok(());
        }
        let mut fds = vec![];
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(more) = message {
                fds.extend(more);
            }
        }
        let mut body = vec![0_u8; u32::from_be_bytes(prefix) as usize];
        channel.read_exact(&mut body)?;
        match body.as_slice() {
            b"die" => {
                writeln!(std::io::stderr(), "last words \x1b[31m")?;
                std::process::exit(3);
            }
            b"huge" => {
                channel.write_all(&u32::MAX.to_be_bytes())?;
                continue;
            }
            _ => {}
        }
        let status = std::fs::read_to_string("/proc/self/status")?;
        let field =
            |name: &str| status.lines().find(|l| l.starts_with(name)).unwrap_or_default().replace('\t', " ");
        let secret = String::from_utf8(body.clone())
            .ok()
            .and_then(|text| Some(text.strip_prefix("read ")?.to_owned()));
        let read = secret.map_or_else(String::new, |path| match std::fs::read_to_string(path) {
            Ok(text) => format!("content {text}\n"),
            Err(error) => format!("error {error}\n"),
        });
        let facts = format!(
            "fds {}\n{}\n{}\n{}\n{read}",
            fds.len(),
            field("CapEff"),
            field("Seccomp:"),
            field("NoNewPrivs")
        );
        for (index, fd) in fds.iter().enumerate() {
            rustix::io::write(fd, format!("fd {index}").as_bytes())?;
        }
        let reply = [facts.as_bytes(), &body].concat();
        channel.write_all(&u32::try_from(reply.len()).unwrap_or_default().to_be_bytes())?;
        channel.write_all(&reply)?;
    }
}
