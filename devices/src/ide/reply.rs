//! What a CD-ROM drive replies to packets that ask about it or its disc (SPC-2, MMC-3).

use super::CD_SECTOR_SIZE;
use super::atapi::Sense;
use super::channel::Drive;

/// Sectors of the longest CD; a longer disc is a DVD.
const CD_SECTORS: u64 = 80 * 60 * 75;
const PROFILE_CD_ROM: u16 = 0x0008;
const PROFILE_DVD_ROM: u16 = 0x0010;
/// Of a data track.
const ADR_CONTROL: u8 = 0x14;
const LEAD_OUT: u8 = 0xaa;
/// kB/s.
const SPEED: u16 = 7056;

fn be16(value: usize) -> [u8; 2] {
    (value.min(0xffff) as u16).to_be_bytes()
}

fn be32(value: u64) -> [u8; 4] {
    (value.min(u32::MAX.into()) as u32).to_be_bytes()
}

/// REQUEST SENSE, current and fixed (SPC-2, 7.23.2).
pub(super) fn sense(sense: Sense) -> Vec<u8> {
    let mut reply = vec![0; 18];
    reply[0] = 0x70;
    reply[2] = sense.key;
    reply[7] = 10;
    reply[12] = sense.code;
    reply[13] = sense.qualifier;
    reply
}

pub(super) fn inquiry() -> Vec<u8> {
    let mut reply = vec![0x05, 0x80, 0x00, 0x21, 31, 0, 0, 0];
    reply.extend(b"TICKBACK");
    reply.extend(b"CD-ROM          ");
    reply.extend(b"1.0 ");
    reply
}

pub(super) fn capacity(sectors: u64) -> Vec<u8> {
    let last = be32(sectors.saturating_sub(1));
    [last, be32(CD_SECTOR_SIZE)].concat()
}

/// READ TOC (MMC-3, 5.23): the table of contents (0), or the sessions (1).
pub(super) fn toc(sectors: u64, format: u8, in_time: bool, start: u8) -> Result<Vec<u8>, Sense> {
    let address = |lba: u64| {
        if in_time {
            let frames = lba + 150;
            [
                0,
                (frames / 75 / 60).min(255) as u8,
                (frames / 75 % 60) as u8,
                (frames % 75) as u8,
            ]
        } else {
            be32(lba)
        }
    };
    let descriptor = |track: u8, lba: u64| {
        let mut bytes = vec![0, ADR_CONTROL, track, 0];
        bytes.extend(address(lba));
        bytes
    };
    let mut reply = vec![1, 1];
    match (format, start) {
        (0, 0 | 1) => {
            reply.extend(descriptor(1, 0));
            reply.extend(descriptor(LEAD_OUT, sectors));
        }
        (0, LEAD_OUT) => reply.extend(descriptor(LEAD_OUT, sectors)),
        (1, _) => reply.extend(descriptor(1, 0)),
        _ => return Err(Sense::INVALID_FIELD),
    }
    let mut whole = be16(reply.len()).to_vec();
    whole.extend(reply);
    Ok(whole)
}

/// GET CONFIGURATION (MMC-3, 5.5): all features from `start` on, or (2) that one.
pub(super) fn configuration(sectors: u64, present: bool, which: u8, start: u16) -> Result<Vec<u8>, Sense> {
    if which == 3 {
        return Err(Sense::INVALID_FIELD);
    }
    let current = match sectors {
        _ if !present => 0,
        0..=CD_SECTORS => PROFILE_CD_ROM,
        _ => PROFILE_DVD_ROM,
    };
    let mut profiles = Vec::new();
    for profile in [PROFILE_DVD_ROM, PROFILE_CD_ROM] {
        profiles.extend(profile.to_be_bytes());
        profiles.extend([u8::from(profile == current), 0]);
    }
    let readable = [be32(CD_SECTOR_SIZE), [0, 1, 0, 0]].concat();
    let cd = current == PROFILE_CD_ROM;
    // Number, version, persistent and current, data.
    let features: [(u16, u8, u8, Vec<u8>); 5] = [
        (0x0000, 0, 3, profiles),
        (0x0001, 0, 3, vec![0, 0, 0, 2]),    // core, over ATAPI
        (0x0003, 0, 3, vec![0x29, 0, 0, 0]), // removable: tray, ejects, locks
        (0x0010, 0, u8::from(present), readable),
        (0x001e, 0, u8::from(cd), vec![0; 4]), // CD
    ];
    let mut body = current.to_be_bytes().to_vec();
    body.splice(0..0, [0, 0]);
    for (number, version, flags, data) in features {
        let wanted = match which {
            2 => number == start,
            1 => number >= start && flags & 1 != 0,
            _ => number >= start,
        };
        if wanted {
            body.extend(number.to_be_bytes());
            body.extend([version << 2 | flags, data.len() as u8]);
            body.extend(data);
        }
    }
    let mut reply = be32(body.len() as u64).to_vec();
    reply.extend(body);
    Ok(reply)
}

/// GET EVENT STATUS NOTIFICATION (MMC-3, 5.6): of the classes asked for, that of media.
pub(super) fn event_status(present: bool, open: bool, classes: u8) -> Vec<u8> {
    const MEDIA: u8 = 4;
    if classes & 1 << MEDIA == 0 {
        return vec![0, 2, 0x80, 1 << MEDIA];
    }
    let status = u8::from(present) << 1 | u8::from(open);
    vec![0, 6, MEDIA, 1 << MEDIA, 0, status, 0, 0]
}

/// READ DISC INFORMATION (MMC-3, 5.19): one whole session of one track.
pub(super) fn disc_information() -> Vec<u8> {
    let mut reply = vec![0; 34];
    reply[1] = 32;
    reply[2] = 0x0e;
    reply[3..7].fill(1);
    reply[7] = 0x20;
    reply[16..24].fill(0xff);
    reply
}

/// MODE SENSE (6).
pub(super) fn mode_sense_6(drive: &Drive, present: bool, page: u8) -> Result<Vec<u8>, Sense> {
    let pages = mode_pages(drive, page)?;
    let mut reply = vec![(pages.len() + 3).min(255) as u8, medium_type(present), 0, 0];
    reply.extend(pages);
    Ok(reply)
}

/// MODE SENSE (10).
pub(super) fn mode_sense_10(drive: &Drive, present: bool, page: u8) -> Result<Vec<u8>, Sense> {
    let pages = mode_pages(drive, page)?;
    let mut reply = be16(pages.len() + 6).to_vec();
    reply.extend([medium_type(present), 0, 0, 0, 0, 0]);
    reply.extend(pages);
    Ok(reply)
}

/// A data disc of 120 mm, or none.
fn medium_type(present: bool) -> u8 {
    if present { 0x01 } else { 0x70 }
}

/// The pages that `page` asks for, with values that can't be changed.
fn mode_pages(drive: &Drive, page: u8) -> Result<Vec<u8>, Sense> {
    const CURRENT: u8 = 0;
    const DEFAULT: u8 = 2;
    let [speed_high, speed_low] = SPEED.to_be_bytes();
    // Error recovery: 32 retries.
    let mut recovery = vec![0x01, 6, 0, 32, 0, 0, 0, 0];
    // Capabilities: reads CD-R and CD-RW, sessions and both forms of mode 2; tray, ejects, locks.
    let mut capabilities = vec![0x2a, 18, 0x03, 0, 0x70, 0, 0x29 | u8::from(drive.locked) << 1, 0];
    capabilities.extend([
        speed_high, speed_low, 0, 0, 2, 0, speed_high, speed_low, 0, 0, 0, 0,
    ]);
    match page >> 6 {
        CURRENT | DEFAULT => {}
        1 => {
            recovery[2..].fill(0);
            capabilities[2..].fill(0);
        }
        _ => return Err(Sense::NOT_SAVED),
    }
    match page & 0x3f {
        0x01 => Ok(recovery),
        0x2a => Ok(capabilities),
        0x3f => Ok([recovery, capabilities].concat()),
        _ => Err(Sense::INVALID_FIELD),
    }
}
