//! Head and tail of an output stream in bounded memory; everything between is counted.

use countersign_types::Captured;

/// The most bytes of head and tail that are kept of one stream, whatever the job asks for, so that a receipt with both
/// streams fits into a frame.
const MOST_KEPT: usize = 8 * 1024 * 1024;

#[derive(Debug)]
pub struct Capture {
    head_limit: usize,
    tail_limit: usize,
    head: Vec<u8>,
    /// A ring once it is full; `start` is then its oldest byte.
    tail: Vec<u8>,
    start: usize,
    total: u64,
}

impl Capture {
    pub fn new(head: u64, tail: u64) -> Self {
        let bound = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(MOST_KEPT);
        Self {
            head_limit: bound(head),
            tail_limit: bound(tail),
            head: vec![],
            tail: vec![],
            start: 0,
            total: 0,
        }
    }

    pub const fn total(&self) -> u64 {
        self.total
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(self.head_limit - self.head.len()));
        self.head.extend_from_slice(head);
        // Only the last `tail_limit` bytes can matter.
        let rest = rest.get(rest.len().saturating_sub(self.tail_limit)..).unwrap_or_default();
        let (fill, wrap) = rest.split_at(rest.len().min(self.tail_limit - self.tail.len()));
        self.tail.extend_from_slice(fill);
        let mut wrap = wrap;
        while !wrap.is_empty() {
            let room = self.tail_limit - self.start;
            let (now, later) = wrap.split_at(wrap.len().min(room));
            if let Some(slot) = self.tail.get_mut(self.start..self.start + now.len()) {
                slot.copy_from_slice(now);
            }
            self.start = (self.start + now.len()) % self.tail_limit;
            wrap = later;
        }
    }

    pub fn finish(mut self) -> Captured {
        self.tail.rotate_left(self.start);
        let kept = (self.head.len() + self.tail.len()) as u64;
        let (head, tail, omitted) = (self.head, self.tail, self.total - kept);
        Captured { head, tail, omitted, total: self.total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain way: keep everything, cut at the end.
    fn model(all: &[u8], head: usize, tail: usize) -> Captured {
        let (h, rest) = all.split_at(all.len().min(head));
        let t = &rest[rest.len().saturating_sub(tail)..];
        let omitted = (all.len() - h.len() - t.len()) as u64;
        Captured { head: h.to_vec(), tail: t.to_vec(), omitted, total: all.len() as u64 }
    }

    #[test]
    fn keeps_exactly_head_and_tail_for_every_chunking() {
        let all: Vec<u8> = (0..200_u8).collect();
        for head in [0, 1, 7, 100, 300] {
            for tail in [0, 1, 5, 64, 300] {
                for chunk in [1, 3, 64, 199, 200] {
                    for len in [0, 1, 8, 63, 200] {
                        let mut capture = Capture::new(head as u64, tail as u64);
                        all[..len].chunks(chunk).for_each(|c| capture.push(c));
                        assert_eq!(
                            capture.finish(),
                            model(&all[..len], head, tail),
                            "{head} {tail} {chunk} {len}"
                        );
                    }
                }
            }
        }
    }
}
