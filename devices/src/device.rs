//! The trait of a memory-mapped device.

use icount::VirtualTime;

use crate::{Context, DeviceError};

/// A device on the board's bus.
///
/// No method has a default: what can be forgotten will be. A device that has no use for one says so
/// with an empty body. All numbers that are the board's (line, hart count, drive) are constructor
/// arguments, not state.
pub trait Device: Send {
    /// What the device is, for messages and the log.
    fn name(&self) -> &'static str;

    /// A guest load of `size` (1, 2, 4 or 8) bytes at `offset` into the device's window. The result
    /// has no bits above `size`. A size or offset that the device doesn't have reads as zero.
    fn read(&mut self, cx: &mut dyn Context, offset: u64, size: u8) -> u64;

    /// A guest store of `size` (1, 2, 4 or 8) bytes. A size or offset that the device doesn't have
    /// is ignored, and so are bits of `value` above `size`.
    fn write(&mut self, cx: &mut dyn Context, offset: u64, size: u8, value: u64);

    /// The next time at which [`Device::fire`] must be called. It moves only in calls that take a
    /// [`Context`], and in [`Device::restore`].
    fn deadline(&self) -> Option<VirtualTime>;

    /// Called at the first boundary at or past the deadline; does all that is due then, so that the
    /// next deadline, if any, is past [`Context::now`].
    fn fire(&mut self, cx: &mut dyn Context);

    /// A line of the board changed. For interrupt controllers.
    fn line_changed(&mut self, cx: &mut dyn Context, line: u32, level: bool);

    /// Whether the device has room for an input of this kind now. The door delivers none otherwise.
    fn accepts(&self, kind: InputKind) -> bool;

    /// An input arrives. One that the device does not accept is dropped.
    fn input(&mut self, cx: &mut dyn Context, input: &Input);

    /// The whole state, a version byte first. Equal states give equal bytes.
    fn save(&self) -> Vec<u8>;

    /// Takes the state that [`Device::save`] gave. Sets no line or pin: the machine restores those
    /// with the rest of its own state.
    ///
    /// # Errors
    /// [`DeviceError`] if the bytes are of another version, are cut short, have bytes left over, or
    /// hold a state that this device can't be in. The device is unchanged then.
    fn restore(&mut self, bytes: &[u8]) -> Result<(), DeviceError>;

    /// The board's reset line: back to the state at power-on, but for what a battery keeps. Lines
    /// and pins that were up go down.
    fn reset(&mut self, cx: &mut dyn Context);
}

/// What can reach a device from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A byte on the device's console port.
    Console(u8),
    /// A key went down or up.
    Key {
        /// The key's make code in scan code set 1; 0xe0 in the high byte for those with that prefix.
        code: u16,
        /// Down, else up.
        down: bool,
    },
    /// An Ethernet frame without its checksum, at most 65,535 bytes.
    Frame {
        /// The board's network port on which it arrives.
        port: u8,
        /// Its bytes.
        data: Vec<u8>,
    },
}

/// The kinds of [`Input`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// [`Input::Console`].
    Console,
    /// [`Input::Key`].
    Key,
    /// [`Input::Frame`] on this port. A bus has several that take frames.
    Frame(u8),
}

impl Input {
    /// The kind of this input.
    pub fn kind(&self) -> InputKind {
        match self {
            Input::Console(_) => InputKind::Console,
            Input::Key { .. } => InputKind::Key,
            Input::Frame { port, .. } => InputKind::Frame(*port),
        }
    }
}
