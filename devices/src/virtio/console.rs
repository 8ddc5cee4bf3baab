//! Virtio console (virtio 1.2, 5.3): one port, without the multiport and size features.
//!
//! ```text
//!   queue 0, receiveq    a byte from outside fills a buffer
//!   queue 1, transmitq   its bytes leave at the notification
//! ```
//!
//! Bytes arrive one by one, as they are typed, and each takes a buffer, so that an interrupt follows it at once. A
//! buffer to send may hold [`MAX_WRITE`] bytes; a longer one breaks the queue.

use serde::{Deserialize, Serialize};

use super::receive::Receiver;
use super::{Chain, Cursor, Queues, TransferError, VirtioDevice};
use crate::{Context, DeviceError, Input, InputKind, VirtualTime, state};

/// Bytes in the longest buffer that is sent.
const MAX_WRITE: u64 = 64 * 1024;
const QUEUE_SIZE: u16 = 128;
const RECEIVE: u16 = 0;
const TRANSMIT: u16 = 1;
const VERSION: u8 = 1;

/// A console port of the board.
pub struct Console {
    port: u8,
    state: State,
}

#[derive(Clone, Default, Serialize, Deserialize)]
struct State {
    receiver: Receiver,
}

impl Console {
    /// A console that talks to console port `port`.
    pub fn new(port: u8) -> Self {
        Console {
            port,
            state: State::default(),
        }
    }

    fn send(&self, cx: &mut dyn Context, chain: &Chain) -> Result<(), TransferError> {
        let mut left = chain.readable_len();
        if left > MAX_WRITE {
            return Err(TransferError::Short);
        }
        let mut cursor = Cursor::new(&chain.readable);
        while left > 0 {
            let mut buf = [0; 256];
            let count = left.min(buf.len() as u64);
            let piece = &mut buf[..count as usize];
            cursor.read(cx, piece)?;
            for &mut byte in piece {
                cx.console_out(self.port, byte);
            }
            left -= count;
        }
        Ok(())
    }

    fn transmit(&mut self, cx: &mut dyn Context, queues: &mut Queues) {
        // A ring's worth and a look whether it is empty: more can only come of a used ring that lies over the
        // available one.
        for _ in 0..=QUEUE_SIZE {
            let Some(chain) = queues.pop(cx, TRANSMIT) else {
                return;
            };
            match self.send(cx, &chain) {
                Ok(()) => queues.complete(cx, TRANSMIT, chain.head, 0),
                Err(_) => queues.fail(),
            }
        }
    }
}

impl VirtioDevice for Console {
    fn name(&self) -> &'static str {
        "virtio-console"
    }

    fn device_id(&self) -> u32 {
        3
    }

    fn features(&self) -> u64 {
        0
    }

    fn queue_sizes(&self) -> &'static [u16] {
        &[QUEUE_SIZE; 2]
    }

    /// `struct virtio_console_config` (5.3.4): columns, rows, ports and the emergency write, none of them on offer.
    fn config(&self) -> Vec<u8> {
        vec![0; 12]
    }

    fn config_write(&mut self, _cx: &mut dyn Context, _offset: u64, _bytes: &[u8]) {}

    fn notified(&mut self, cx: &mut dyn Context, queues: &mut Queues, queue: u16) {
        match queue {
            RECEIVE => self.state.receiver.refill(cx, queues, RECEIVE, 1),
            _ => self.transmit(cx, queues),
        }
    }

    fn deadline(&self) -> Option<VirtualTime> {
        None
    }

    fn fire(&mut self, _cx: &mut dyn Context, _queues: &mut Queues) {}

    fn accepts(&self, queues: &Queues, kind: InputKind) -> bool {
        let ready = queues.size(RECEIVE).is_some() && self.state.receiver.room().is_some();
        kind == InputKind::Console && ready
    }

    fn input(&mut self, cx: &mut dyn Context, queues: &mut Queues, input: &Input) {
        if let Input::Console(byte) = *input {
            self.state.receiver.put(cx, queues, RECEIVE, &[byte]);
            self.state.receiver.refill(cx, queues, RECEIVE, 1);
        }
    }

    fn save(&self) -> Vec<u8> {
        state::save(VERSION, &self.state)
    }

    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError> {
        self.state = state::restore(self.name(), VERSION, bytes, |state: &State| {
            if state.receiver.is_possible(1) {
                Ok(())
            } else {
                Err("a buffer without room")
            }
        })?;
        Ok(())
    }

    fn reset(&mut self) {
        self.state = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::super::driver::{DATA, Driver, Part, notify_queue};
    use super::super::tests::transports;
    use super::*;
    use crate::Device;
    use crate::fake::{Effect, Fake, RAM_BASE, RAM_SIZE};

    const VERSION_1: u64 = 1 << 32;

    fn console() -> Box<dyn VirtioDevice> {
        Box::new(Console::new(3))
    }

    fn status(device: &mut dyn Device, cx: &mut Fake) -> u64 {
        device.read(cx, 0x70, 4)
    }

    fn typed(device: &mut dyn Device, cx: &mut Fake, byte: u8) -> bool {
        let room = device.accepts(InputKind::Console);
        device.input(cx, &Input::Console(byte));
        room
    }

    #[test]
    fn bytes_arrive_while_there_is_room() {
        for device in &mut transports(console) {
            let (device, mut cx) = (&mut **device, Fake::new());
            assert!(!typed(device, &mut cx, b'!'));
            let [mut receive, _] = Driver::start_two(device, &mut cx, VERSION_1, 8);
            assert!(!typed(device, &mut cx, b'!'));
            let a = receive.add(&mut cx, &[Part::Write(DATA, 16)]);
            let b = receive.add(&mut cx, &[Part::Write(DATA + 16, 0), Part::Write(DATA + 17, 3)]);
            notify_queue(device, &mut cx, RECEIVE);
            assert!(!device.accepts(InputKind::Frame(0)));
            assert_eq!(receive.used(&cx), []);
            cx.take();
            assert!(typed(device, &mut cx, b'a'));
            assert!(
                cx.take()
                    .iter()
                    .any(|effect| matches!(effect, Effect::Line(_, true)))
            );
            assert!(typed(device, &mut cx, b'b'));
            assert!(!typed(device, &mut cx, b'!'));
            assert_eq!(receive.used(&cx), [(a.into(), 1), (b.into(), 1)]);
            assert_eq!(cx.peek(DATA, 2), b"a\0");
            assert_eq!(cx.peek(DATA + 16, 3), b"\0b\0");
            // A buffer made available later is found when the driver notifies.
            receive.add(&mut cx, &[Part::Write(DATA, 1)]);
            assert!(!device.accepts(InputKind::Console));
            notify_queue(device, &mut cx, RECEIVE);
            assert!(device.accepts(InputKind::Console));
            // A reset takes it away.
            device.write(&mut cx, 0x70, 4, 0);
            assert!(!typed(device, &mut cx, b'!'));
            assert_eq!(cx.peek(DATA, 2), b"a\0");
        }
    }

    #[test]
    fn bytes_leave_in_order() {
        for device in &mut transports(console) {
            let (device, mut cx) = (&mut **device, Fake::new());
            let [_, mut transmit] = Driver::start_two(device, &mut cx, VERSION_1, 8);
            let text: Vec<u8> = (0..600).map(|n| (n % 251) as u8).collect();
            cx.poke(DATA, &text);
            let head = transmit.add(&mut cx, &[Part::Read(DATA, 1), Part::Read(DATA + 1, 599)]);
            let other = transmit.add(&mut cx, &[Part::Read(DATA, 2)]);
            notify_queue(device, &mut cx, TRANSMIT);
            assert_eq!(transmit.used(&cx), [(head.into(), 0), (other.into(), 0)]);
            let out: Vec<u8> = cx
                .take()
                .iter()
                .filter_map(|effect| match effect {
                    Effect::Out(3, byte) => Some(*byte),
                    _ => None,
                })
                .collect();
            assert_eq!(out, [text.as_slice(), &text[..2]].concat());
        }
    }

    #[test]
    fn bad_buffers_need_a_reset() {
        let outside = RAM_BASE + RAM_SIZE as u64;
        for (queue, part) in [
            (RECEIVE, Part::Write(DATA, 0)),
            (RECEIVE, Part::Read(DATA, 16)),
            (TRANSMIT, Part::Read(DATA, 0x1_0001)),
            (TRANSMIT, Part::Read(outside, 1)),
        ] {
            for device in &mut transports(console) {
                let (device, mut cx) = (&mut **device, Fake::new());
                let mut drivers = Driver::start_two(device, &mut cx, VERSION_1, 8);
                drivers[usize::from(queue)].add(&mut cx, std::slice::from_ref(&part));
                notify_queue(device, &mut cx, queue);
                assert_eq!(status(device, &mut cx), 0x4f, "{part:?}");
                assert!(!typed(device, &mut cx, b'!'));
            }
        }
        // Room outside RAM is found out when it is used.
        for device in &mut transports(console) {
            let (device, mut cx) = (&mut **device, Fake::new());
            let [mut receive, _] = Driver::start_two(device, &mut cx, VERSION_1, 8);
            receive.add(&mut cx, &[Part::Write(outside, 1)]);
            notify_queue(device, &mut cx, RECEIVE);
            assert!(typed(device, &mut cx, b'a'));
            assert_eq!(status(device, &mut cx), 0x4f);
        }
    }
}
