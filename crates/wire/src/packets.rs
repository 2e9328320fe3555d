//! Cuts a stream into packets: `LENGTH[3] SEQUENCE[1] PAYLOAD`; a payload of `ffffff` bytes goes on in the next frame.
//!
//! Packets that are complete in the buffer are passed on without a copy; only a part of a packet is kept.

use crate::Wrong;

/// Bytes before each frame's payload.
const HEADER: usize = 4;
/// A frame of this length goes on in the next one.
const FULL: usize = 0xff_ffff;

/// Cuts one connection's stream.
#[derive(Debug, Default)]
pub struct Packets {
    /// The beginning of a packet whose end has not come.
    pending: Vec<u8>,
    /// The number of the next frame.
    sequence: u8,
}

impl Packets {
    /// Nothing read yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// True where no packet is cut off.
    pub fn is_between(&self) -> bool {
        self.pending.is_empty()
    }

    /// The number that the next frame has, ours or theirs.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }

    /// A command begins: frames are numbered from zero again.
    pub fn begin_command(&mut self) {
        self.sequence = 0;
    }

    /// Adds a payload of ours to `out`, framed.
    pub fn frame(&mut self, payload: &[u8], out: &mut Vec<u8>) {
        let mut rest = payload;
        loop {
            let (head, tail) = rest.split_at(rest.len().min(FULL));
            out.extend_from_slice(&(head.len() as u32).to_le_bytes()[..3]);
            out.push(self.sequence);
            self.sequence = self.sequence.wrapping_add(1);
            out.extend_from_slice(head);
            rest = tail;
            if head.len() < FULL {
                return;
            }
        }
    }

    /// Hands each payload that is whole now to `take`, in order, and keeps the rest. Refuses a payload of more than
    /// `most` bytes before it is kept.
    pub fn feed<E: From<Wrong>>(
        &mut self,
        bytes: &[u8],
        most: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let used = self.next(rest, most, take)?;
            rest = &rest[used..];
        }
        Ok(())
    }

    /// Hands the next payload to `take` where it is whole now, and keeps its beginning where not. How many bytes that took.
    pub fn next<E: From<Wrong>>(
        &mut self,
        bytes: &[u8],
        most: usize,
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        if self.pending.is_empty() {
            let extent = Extent::measure(bytes, most)?;
            if !extent.is_whole(bytes.len()) {
                self.pending.extend_from_slice(bytes);
                return Ok(bytes.len());
            }
            self.hand_on(&bytes[..extent.known], take)?;
            return Ok(extent.known);
        }
        let mut used = 0;
        loop {
            // What is known now may be no more than a header, which announces more.
            let extent = Extent::measure(&self.pending, most)?;
            let missing = extent.known - self.pending.len();
            let there = missing.min(bytes.len() - used);
            self.pending.extend_from_slice(&bytes[used..used + there]);
            used += there;
            if there < missing {
                return Ok(used);
            }
            if extent.ends {
                let whole = std::mem::take(&mut self.pending);
                self.hand_on(&whole, take)?;
                return Ok(used);
            }
        }
    }

    /// The packets at the beginning that are whole, of one frame, the next in order, and wanted: how many bytes, and how many
    /// packets. Their numbers become zero: each is its length in four bytes, and its payload.
    pub fn run(&mut self, bytes: &mut [u8], is_wanted: impl Fn(&[u8]) -> bool) -> (usize, usize) {
        let (mut at, mut count) = (0, 0);
        while self.pending.is_empty()
            && let Some(header) = bytes.get(at..at + HEADER)
        {
            let (length, sequence) = (length(header), header[3]);
            let begin = at + HEADER;
            let payload = bytes.get(begin..begin + length);
            if length >= FULL || sequence != self.sequence || !payload.is_some_and(&is_wanted) {
                break;
            }
            bytes[at + 3] = 0;
            self.sequence = sequence.wrapping_add(1);
            at = begin + length;
            count += 1;
        }
        (at, count)
    }

    /// One packet, with all its frames.
    fn hand_on<E: From<Wrong>>(
        &mut self,
        framed: &[u8],
        take: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let first = length(framed);
        self.expect(framed[3])?;
        if first < FULL {
            return take(&framed[HEADER..]);
        }
        let (mut joined, mut rest) = (Vec::with_capacity(framed.len()), framed);
        loop {
            let length = length(rest);
            joined.extend_from_slice(&rest[HEADER..HEADER + length]);
            rest = &rest[HEADER + length..];
            if length < FULL {
                return take(&joined);
            }
            self.expect(rest[3])?;
        }
    }

    fn expect(&mut self, sequence: u8) -> Result<(), Wrong> {
        if sequence != self.sequence {
            return Err(Wrong("packets out of order"));
        }
        self.sequence = sequence.wrapping_add(1);
        Ok(())
    }
}

/// How far a packet reaches, as far as its headers say by now.
struct Extent {
    /// Bytes up to the end, or to the end of the next header.
    known: usize,
    /// Whether that is the end.
    ends: bool,
}

impl Extent {
    fn measure(bytes: &[u8], most: usize) -> Result<Self, Wrong> {
        let (mut at, mut payload) = (0, 0);
        loop {
            if bytes.len() < at + HEADER {
                return Ok(Self { known: at + HEADER, ends: false });
            }
            let length = length(&bytes[at..]);
            payload += length;
            if payload > most {
                return Err(Wrong("a packet that is larger than any is expected to be"));
            }
            at += HEADER + length;
            if length < FULL {
                return Ok(Self { known: at, ends: true });
            }
            if bytes.len() < at {
                return Ok(Self { known: at, ends: false });
            }
        }
    }

    fn is_whole(&self, there: usize) -> bool {
        self.ends && there >= self.known
    }
}

/// The payload's length in a frame's header, which is there.
fn length(framed: &[u8]) -> usize {
    usize::from(framed[0]) | usize::from(framed[1]) << 8 | usize::from(framed[2]) << 16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(stream: &[u8], steps: &[usize], most: usize) -> Result<Vec<Vec<u8>>, Wrong> {
        let (mut packets, mut seen) = (Packets::new(), Vec::new());
        let mut rest = stream;
        for &step in steps.iter().chain(std::iter::once(&usize::MAX)) {
            let (head, tail) = rest.split_at(step.min(rest.len()));
            packets.feed(head, most, &mut |payload| {
                seen.push(payload.to_vec());
                Ok::<(), Wrong>(())
            })?;
            rest = tail;
        }
        Ok(seen)
    }

    proptest! {
        #[test]
        fn however_it_is_cut_the_same_packets_come_out(
            payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..9),
            steps in proptest::collection::vec(0usize..120, 0..60),
        ) {
            let (mut packets, mut stream) = (Packets::new(), Vec::new());
            for payload in &payloads {
                packets.frame(payload, &mut stream);
            }
            prop_assert_eq!(cut(&stream, &steps, 1 << 20), Ok(payloads));
        }

        #[test]
        fn anything_is_cut_or_refused(
            stream in proptest::collection::vec(any::<u8>(), 0..200),
            steps in proptest::collection::vec(0usize..40, 0..20),
        ) {
            let _ = cut(&stream, &steps, 64);
        }
    }

    #[test]
    fn a_payload_of_more_than_a_frame_is_joined() {
        for size in [FULL - 1, FULL, FULL + 1, 2 * FULL] {
            let payload = vec![7; size];
            let (mut packets, mut stream) = (Packets::new(), Vec::new());
            packets.frame(&payload, &mut stream);
            for steps in [vec![], vec![3, 2, FULL + 1, 2]] {
                assert!(cut(&stream, &steps, 3 * FULL) == Ok(vec![payload.clone()]), "{size} in {steps:?}");
            }
            assert!(cut(&stream, &[], FULL - 2).is_err());
        }
    }

    #[test]
    fn a_packet_of_another_place_is_refused() {
        assert_eq!(cut(b"\x01\0\0\x01a", &[], 64), Err(Wrong("packets out of order")));
    }
}
