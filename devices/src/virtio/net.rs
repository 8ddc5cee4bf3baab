//! Virtio network card (virtio 1.2, 5.1), with a fixed address and no offloads.
//!
//! ```text
//!   queue 0, receiveq1    a frame from outside fills a buffer, behind a header of 12 bytes
//!   queue 1, transmitq1   notify ─▶ read what is to be sent when it is due ─▶ frame, used ring
//! ```
//!
//! The link is always up and is a wire of a thousand nanoseconds and one more a byte: frames leave one behind the
//! other, in order. A frame that arrives while the driver's next buffer is too short for it is lost, as are frames
//! to send that have no whole Ethernet header. All that arrives is received, whatever its address, since there is no
//! control queue by which a driver could ask for less.
//!
//! Mergeable buffers, checksum and segmentation offloads, control queue and several queues are not offered. At most
//! 256 frames are on their way (the rest stay in the ring); one that is longer than 65,535 bytes, or whose
//! buffer is outside RAM or too short for the header, breaks the queue.

use serde::{Deserialize, Serialize};

use super::receive::Receiver;
use super::{Chain, Cursor, Queues, TransferError, VirtioDevice};
use crate::{Context, DeviceError, Input, InputKind, VirtualTime, state};

/// Greatest size of both queues.
const QUEUE_SIZE: u16 = 256;
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;

const FEATURE_MAC: u64 = 1 << 5;
const FEATURE_STATUS: u64 = 1 << 16;
const STATUS_LINK_UP: u16 = 1;

/// `struct virtio_net_hdr` (5.1.6), all zero but for the number of buffers.
const HEADER_SIZE: u64 = 12;
const NUM_BUFFERS: usize = 10;
/// Addresses and type.
const ETHERNET_HEADER: usize = 14;
const MAX_FRAME: u64 = 65_535;
/// Virtual nanoseconds that every frame takes; each byte takes one more.
const FRAME_NS: u64 = 1000;
const VERSION: u8 = 1;

/// A network port of the board.
pub struct Net {
    port: u8,
    mac: [u8; 6],
    state: State,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    receiver: Receiver,
    /// Frames on their way out, in order.
    sending: Vec<Transmission>,
}

#[derive(Clone, Serialize, Deserialize)]
struct Transmission {
    due: VirtualTime,
    chain: Chain,
}

impl Net {
    /// A card of address `mac` on network port `port`.
    pub fn new(port: u8, mac: [u8; 6]) -> Self {
        Net {
            port,
            mac,
            state: State::default(),
        }
    }

    /// Takes frames to send from the ring, as many as may be on their way.
    fn submit(&mut self, cx: &mut dyn Context, queues: &mut Queues) {
        let sending = &mut self.state.sending;
        while sending.len() < usize::from(QUEUE_SIZE) {
            let Some(chain) = queues.pop(cx, TRANSMIT) else {
                return;
            };
            let Some(len) = frame_len(&chain) else {
                return queues.fail();
            };
            let start = sending.last().map_or(cx.now(), |last| last.due.max(cx.now()));
            let due = start.saturating_add(FRAME_NS + len);
            sending.push(Transmission { due, chain });
        }
    }

    /// Sends a frame that is due and gives its buffer back.
    fn finish(&self, cx: &mut dyn Context, queues: &mut Queues, chain: &Chain) -> Result<(), TransferError> {
        let len = frame_len(chain).ok_or(TransferError::Short)?;
        let mut cursor = Cursor::new(&chain.readable);
        // Without offloads nothing in the header means anything.
        cursor.skip(HEADER_SIZE)?;
        let mut frame = vec![0; len as usize];
        cursor.read(cx, &mut frame)?;
        if frame.len() >= ETHERNET_HEADER {
            cx.frame_out(self.port, &frame);
        }
        queues.complete(cx, TRANSMIT, chain.head, 0);
        Ok(())
    }
}

/// Bytes of the frame in a buffer to send, if it can be sent.
fn frame_len(chain: &Chain) -> Option<u64> {
    let len = chain.readable_len().checked_sub(HEADER_SIZE)?;
    (len <= MAX_FRAME).then_some(len)
}

impl VirtioDevice for Net {
    fn name(&self) -> &'static str {
        "virtio-net"
    }

    fn device_id(&self) -> u32 {
        1
    }

    fn features(&self) -> u64 {
        FEATURE_MAC | FEATURE_STATUS
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE; 2]
    }

    /// `struct virtio_net_config` (5.1.4) up to the status.
    fn config(&self) -> Vec<u8> {
        [self.mac.as_slice(), &STATUS_LINK_UP.to_le_bytes()].concat()
    }

    fn config_write(&mut self, _cx: &mut dyn Context, _offset: u64, _bytes: &[u8]) {}

    fn notified(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16) {
        match queue {
            RECEIVE => self.state.receiver.refill(cx, queues, RECEIVE, HEADER_SIZE),
            _ => self.submit(cx, queues),
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        self.state.sending.first().map(|first| first.due)
    }

    fn fire(&mut self, cx: &mut dyn Context, queues: &mut Queues) {
        let now = cx.now();
        let sending = &mut self.state.sending;
        let due = sending.partition_point(|frame| frame.due <= now);
        let full = sending.len() == usize::from(QUEUE_SIZE);
        let due: Vec<Transmission> = sending.drain(..due).collect();
        for Transmission { chain, .. } in &due {
            if !queues.is_broken() && self.finish(cx, queues, chain).is_err() {
                queues.fail();
            }
        }
        if full {
            self.submit(cx, queues);
        }
        if queues.is_broken() {
            self.state.sending.clear();
        }
    }

    fn accepts(&self, queues: &Queues, kind: InputKind) -> bool {
        let ready = queues.size(RECEIVE).is_some() && self.state.receiver.room().is_some();
        kind == InputKind::Frame(self.port) && ready
    }

    fn input(&mut self, cx: &mut dyn Context, queues: &mut Queues, input: &Input) {
        let Input::Frame { port, data } = input else {
            return;
        };
        if *port != self.port {
            return;
        }
        let mut bytes = vec![0; HEADER_SIZE as usize];
        bytes[NUM_BUFFERS] = 1;
        bytes.extend(data);
        let receiver = &mut self.state.receiver;
        if receiver.room().is_some_and(|room| room >= bytes.len() as u64) {
            receiver.put(cx, queues, RECEIVE, &bytes);
            receiver.refill(cx, queues, RECEIVE, HEADER_SIZE);
        }
    }

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            let sending = &state.sending;
            if sending.len() > usize::from(QUEUE_SIZE) {
                return Err("more frames on their way than the queue holds");
            }
            if !sending.is_sorted_by_key(|frame| frame.due) {
                return Err("frames out of order");
            }
            let possible =
                |frame: &Transmission| frame.chain.is_possible() && frame_len(&frame.chain).is_some();
            if !sending.iter().all(possible) {
                return Err("a frame that can't have been submitted");
            }
            if !state.receiver.is_possible(HEADER_SIZE) {
                return Err("a buffer without room");
            }
            Ok(())
        })?;
        Ok(())
    }

    fn reset(&mut self) {
        self.state = State::default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop, prop_assert, prop_assert_eq, proptest};

    use super::super::driver::{DATA, Driver, Part, descriptor, notify_queue, settle};
    use super::super::tests::{hostile_descriptor, transports, word};
    use super::*;
    use crate::Device;
    use crate::fake::{Effect, Fake, RAM_BASE, RAM_SIZE};

    const VERSION_1: u64 = 1 << 32;
    const INDIRECT: u64 = 1 << 28;

    fn card() -> Box<dyn VirtioDevice> {
        Box::new(Net::new(2, [0x52, 0x54, 0, 0x12, 0x34, 0x56]))
    }

    fn frame(len: usize) -> Vec<u8> {
        (0..len).map(|n| (n % 253) as u8).collect()
    }

    fn arrives(device: &mut dyn Device, cx: &mut Fake, frame: Vec<u8>) -> bool {
        let room = device.accepts(InputKind::Frame(2));
        device.input(cx, &Input::Frame { port: 2, data: frame });
        room
    }

    fn sent(cx: &mut Fake) -> Vec<Vec<u8>> {
        let frame = |effect| match effect {
            Effect::Frame(2, frame) => Some(frame),
            _ => None,
        };
        cx.take().into_iter().filter_map(frame).collect()
    }

    #[test]
    fn the_address_and_the_link_are_told() {
        for device in &mut transports(card) {
            let (device, mut cx) = (&mut **device, Fake::new());
            assert_eq!(
                device.read(&mut cx, 0x10, 4) & 0xff_ffff,
                FEATURE_MAC | FEATURE_STATUS
            );
            assert_eq!(device.read(&mut cx, 0x100, 8), 0x0001_5634_1200_5452);
            assert_eq!(device.read(&mut cx, 0x106, 2), 1);
        }
    }

    #[test]
    fn frames_arrive_while_there_is_room() {
        for device in &mut transports(card) {
            let (device, mut cx) = (&mut **device, Fake::new());
            let [mut receive, _] = Driver::start_two(device, &mut cx, VERSION_1, 8);
            assert!(!arrives(device, &mut cx, frame(60)));
            let a = receive.add(&mut cx, &[Part::Write(DATA, 12), Part::Write(DATA + 0x100, 1514)]);
            let b = receive.add(&mut cx, &[Part::Write(DATA + 0x1000, 1526)]);
            cx.poke(DATA, &[0xff; 12]);
            notify_queue(device, &mut cx, RECEIVE);
            assert!(!device.accepts(InputKind::Console));
            // Too long for the buffer: lost, and the buffer stays.
            assert!(arrives(device, &mut cx, frame(1515)));
            assert_eq!(receive.used(&cx), []);
            assert!(arrives(device, &mut cx, frame(1514)));
            assert!(arrives(device, &mut cx, frame(60)));
            assert!(!arrives(device, &mut cx, frame(60)));
            assert_eq!(receive.used(&cx), [(a.into(), 1526), (b.into(), 72)]);
            assert_eq!(cx.peek(DATA, 12), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0]);
            assert_eq!(cx.peek(DATA + 0x100, 1514), frame(1514));
            assert_eq!(cx.peek(DATA + 0x1000 + 12, 61), [frame(60), vec![0]].concat());
        }
    }

    #[test]
    fn frames_leave_one_behind_the_other() {
        for device in &mut transports(card) {
            let (device, mut cx) = (&mut **device, Fake::new());
            let [_, mut transmit] = Driver::start_two(device, &mut cx, VERSION_1, 8);
            cx.now = VirtualTime(5000);
            cx.poke(DATA, &[0xff; 12]);
            cx.poke(DATA + 12, &frame(1514));
            let long = transmit.add(&mut cx, &[Part::Read(DATA, 12), Part::Read(DATA + 12, 1514)]);
            let short = transmit.add(&mut cx, &[Part::Read(DATA, 12 + 60)]);
            let none = transmit.add(&mut cx, &[Part::Read(DATA, 12 + 13)]);
            notify_queue(device, &mut cx, TRANSMIT);
            assert_eq!(device.deadline(), Some(VirtualTime(5000 + 1000 + 1514)));
            assert_eq!(sent(&mut cx), [] as [Vec<u8>; 0]);
            cx.now = VirtualTime(5000 + 1000 + 1514);
            device.fire(&mut cx);
            assert_eq!(sent(&mut cx), [frame(1514)]);
            assert_eq!(transmit.used(&cx), [(long.into(), 0)]);
            assert_eq!(device.deadline(), Some(VirtualTime(5000 + 2000 + 1574)));
            settle(device, &mut cx);
            assert_eq!(sent(&mut cx), [frame(60)]);
            assert_eq!(transmit.used(&cx), [(short.into(), 0), (none.into(), 0)]);
            // A reset forgets what is on its way.
            transmit.add(&mut cx, &[Part::Read(DATA, 12 + 60)]);
            notify_queue(device, &mut cx, TRANSMIT);
            device.write(&mut cx, 0x70, 4, 0);
            assert_eq!(device.deadline(), None);
        }
    }

    #[test]
    fn more_frames_than_may_be_on_their_way_wait_in_the_ring() {
        // Only a driver that reuses buffers in flight can do that.
        for device in &mut transports(card) {
            let (device, mut cx) = (&mut **device, Fake::new());
            let [_, mut transmit] = Driver::start_two(device, &mut cx, VERSION_1, 256);
            let head = transmit.add(&mut cx, &[Part::Read(DATA, 12 + 60)]);
            for _ in 0..3 {
                (0..100).for_each(|_| transmit.publish(&mut cx, head));
                notify_queue(device, &mut cx, TRANSMIT);
            }
            let mut count = 0;
            while let Some(due) = device.deadline() {
                cx.now = due;
                device.fire(&mut cx);
                count += sent(&mut cx).len();
            }
            assert_eq!(count, 301);
        }
    }

    #[test]
    fn bad_buffers_need_a_reset() {
        let outside = RAM_BASE + RAM_SIZE as u64;
        for (queue, part) in [
            (RECEIVE, Part::Write(DATA, 11)),
            (RECEIVE, Part::Write(outside, 1526)),
            (TRANSMIT, Part::Read(DATA, 11)),
            (TRANSMIT, Part::Read(DATA, 12 + 65536)),
            (TRANSMIT, Part::Read(outside, 72)),
            (TRANSMIT, Part::Write(DATA, 72)),
        ] {
            for device in &mut transports(card) {
                let (device, mut cx) = (&mut **device, Fake::new());
                let mut drivers = Driver::start_two(device, &mut cx, VERSION_1, 8);
                drivers[usize::from(queue)].add(&mut cx, std::slice::from_ref(&part));
                notify_queue(device, &mut cx, queue);
                arrives(device, &mut cx, frame(60));
                settle(device, &mut cx);
                assert_eq!(device.read(&mut cx, 0x70, 4), 0x4f, "{part:?}");
                assert!(!device.accepts(InputKind::Frame(2)));
                assert_eq!(sent(&mut cx), [] as [Vec<u8>; 0]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// Whatever lies in the rings and whatever arrives: no panic, bounded work, and a reset heals.
        #[test]
        fn random_rings_are_survived(
            over_pci in any::<bool>(),
            descriptors in prop::collection::vec(hostile_descriptor(), 16),
            rounds in prop::collection::vec((prop::collection::vec(word(), 8), word(), 0usize..2000), 1..6),
        ) {
            let [over_mmio, bridged] = transports(card);
            let mut device = if over_pci { bridged } else { over_mmio };
            let (device, mut cx) = (&mut *device, Fake::new());
            let drivers = Driver::start_two(device, &mut cx, VERSION_1 | INDIRECT, 8);
            for (n, &(addr, len, flags, next)) in descriptors.iter().enumerate() {
                for driver in &drivers {
                    descriptor(&mut cx, driver.desc(), n as u16, addr, len, flags, next);
                }
                descriptor(&mut cx, DATA + 0x100, n as u16, addr, len, flags, next);
            }
            for (ring, idx, len) in rounds {
                for driver in &drivers {
                    for (n, head) in ring.iter().enumerate() {
                        cx.poke(driver.avail() + 4 + 2 * n as u64, &head.to_le_bytes());
                    }
                    cx.poke(driver.avail() + 2, &idx.to_le_bytes());
                }
                notify_queue(device, &mut cx, TRANSMIT);
                notify_queue(device, &mut cx, RECEIVE);
                for _ in 0..20 {
                    arrives(device, &mut cx, frame(len));
                    let Some(due) = device.deadline() else { continue };
                    cx.now = cx.now.max(due);
                    device.fire(&mut cx);
                    cx.effects.clear();
                }
                let saved = device.save();
                prop_assert_eq!(device.restore(&saved), Ok(()));
            }
            prop_assert!(cx.dma_calls < 20_000_000);
            let [mut receive, mut transmit] = Driver::start_two(device, &mut cx, VERSION_1, 8);
            cx.take();
            receive.add(&mut cx, &[Part::Write(DATA, 1526)]);
            notify_queue(device, &mut cx, RECEIVE);
            prop_assert!(arrives(device, &mut cx, frame(100)));
            prop_assert_eq!(receive.used(&cx), [(0, 112)]);
            transmit.add(&mut cx, &[Part::Read(DATA, 112)]);
            notify_queue(device, &mut cx, TRANSMIT);
            settle(device, &mut cx);
            prop_assert_eq!(sent(&mut cx), [frame(100)]);
        }
    }
}
