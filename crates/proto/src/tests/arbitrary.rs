//! Arbitrary values of any type that can be decoded: a deserializer without an input, which draws what it answers.
//!
//! What comes out is well-formed by the type's own rules and mostly nonsense otherwise; numbers are drawn from those that
//! mean something in the world under test, small ones, and the ends of their range. New messages and fields are covered
//! the day they are added.

use serde::de::{self, DeserializeOwned, IntoDeserializer, Visitor};

/// Levels of values in values beyond which lists are empty and options are `None`.
const DEPTH_MAX: u32 = 12;

/// A sequence of draws, the same for the same seed, or first those that a fuzzer's bytes are.
pub(crate) struct Dice {
    state: u64,
    /// Bytes of a fuzzer, the next one last.
    given: Vec<u8>,
    is_given: bool,
    /// Numbers that mean something.
    known: Vec<u64>,
}

impl Dice {
    pub(super) fn new(seed: u64, known: Vec<u64>) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, given: Vec::new(), is_given: false, known }
    }

    /// Draws what these bytes say, while they last.
    #[cfg(fuzzing)]
    pub(crate) fn of_bytes(bytes: &[u8], known: Vec<u64>) -> Self {
        Self { given: bytes.iter().rev().copied().collect(), is_given: true, ..Self::new(1, known) }
    }

    /// Whether the bytes have come to their end.
    pub(super) fn is_spent(&self) -> bool {
        self.is_given && self.given.is_empty()
    }

    /// A number of so many bytes of what is given; `None` when that has come to its end.
    fn take(&mut self, bytes: usize) -> Option<u64> {
        let first = self.given.pop()?;
        let more = (1..bytes).map_while(|_| self.given.pop()).collect::<Vec<u8>>();
        Some(more.into_iter().fold(u64::from(first), |number, byte| number << 8 | u64::from(byte)))
    }

    fn next(&mut self) -> u64 {
        if let Some(number) = self.take(8) {
            return number;
        }
        // xorshift64*: good enough to draw from, and no dependency of the engine's.
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Less than `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // A fuzzer finds more by its bytes if few of them decide one thing.
        if let Some(number) = self.take(if bound <= 256 { 1 } else { 8 }) {
            return number % bound;
        }
        (self.next() >> 11) % bound
    }

    #[cfg(fuzzing)]
    pub(super) fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("less than 256")
    }

    pub(super) fn also_knows(&mut self, numbers: impl IntoIterator<Item = u64>) {
        self.known.extend(numbers);
    }

    fn number(&mut self) -> u64 {
        match self.below(16) {
            0..6 => self.below(12),
            6..12 if !self.known.is_empty() => {
                let at = usize::try_from(self.below(self.known.len() as u64)).expect("an index");
                self.known[at]
            }
            12 => u64::MAX - self.below(3),
            13 => (1 << self.below(64)) - 1,
            _ => self.next() >> self.below(64),
        }
    }

    /// Draws a value; most draws that the type refuses are made again.
    pub(super) fn draw<T: DeserializeOwned>(&mut self) -> T {
        loop {
            if let Ok(value) = T::deserialize(Draw { dice: self, depth: 0 }) {
                return value;
            }
        }
    }
}

/// The type refused a draw.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

impl de::Error for Refused {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self(message.to_string())
    }
}

struct Draw<'d> {
    dice: &'d mut Dice,
    depth: u32,
}

impl Draw<'_> {
    fn len(&mut self) -> usize {
        let most = match self.dice.below(40) {
            _ if self.depth >= DEPTH_MAX => 1,
            0 => 70,
            _ => 4,
        };
        usize::try_from(self.dice.below(most)).expect("a length")
    }

    fn text(&mut self) -> String {
        match self.dice.below(10) {
            0 => "x".repeat(usize::try_from(self.dice.below(300)).expect("a length")),
            1 => {
                ["..", ".", "a/b", "\u{1b}[2J", "ü"][usize::try_from(self.dice.below(5)).expect("an index")].to_owned()
            }
            _ => format!("f{}", self.dice.below(6)),
        }
    }
}

/// Methods that answer a drawn number.
macro_rules! numbers {
    ($($method:ident $visit:ident $type:ty,)*) => {
        $(fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            visitor.$visit(self.dice.number() as $type)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Draw<'_> {
    type Error = Refused;

    numbers! {
        deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16,
        deserialize_u32 visit_u32 u32,
        deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128,
        deserialize_i8 visit_i8 i8,
        deserialize_i16 visit_i16 i16,
        deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64,
        deserialize_i128 visit_i128 i128,
        deserialize_f32 visit_f32 f32,
        deserialize_f64 visit_f64 f64,
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
        Err(de::Error::custom("a type that describes itself: the wire has none"))
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_bool(self.dice.below(2) == 0)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_char('c')
    }

    fn deserialize_str<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_string(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_byte_buf(self.text().into_bytes())
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        if self.depth >= DEPTH_MAX || self.dice.below(2) == 0 { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let left = self.len();
        visitor.visit_seq(Several { dice: self.dice, depth: self.depth + 1, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_seq(Several { dice: self.dice, depth: self.depth + 1, left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Refused> {
        let left = self.len();
        visitor.visit_map(Several { dice: self.dice, depth: self.depth + 1, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        visitor.visit_enum(Variant { dice: self.dice, depth: self.depth + 1, count: variants.len() })
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_u32(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_unit()
    }
}

struct Several<'d> {
    dice: &'d mut Dice,
    depth: u32,
    left: usize,
}

impl Several<'_> {
    fn take(&mut self) -> bool {
        let is_left = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_left
    }
}

impl<'de> de::SeqAccess<'de> for Several<'_> {
    type Error = Refused;

    fn next_element_seed<T: de::DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refused> {
        if !self.take() {
            return Ok(None);
        }
        seed.deserialize(Draw { dice: self.dice, depth: self.depth }).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> de::MapAccess<'de> for Several<'_> {
    type Error = Refused;

    fn next_key_seed<K: de::DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refused> {
        if !self.take() {
            return Ok(None);
        }
        seed.deserialize(Draw { dice: self.dice, depth: self.depth }).map(Some)
    }

    fn next_value_seed<V: de::DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refused> {
        seed.deserialize(Draw { dice: self.dice, depth: self.depth })
    }
}

struct Variant<'d> {
    dice: &'d mut Dice,
    depth: u32,
    count: usize,
}

impl<'de, 'd> de::EnumAccess<'de> for Variant<'d> {
    type Error = Refused;
    type Variant = Draw<'d>;

    fn variant_seed<V: de::DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Draw<'d>), Refused> {
        let variant = u32::try_from(self.dice.below(self.count as u64)).expect("an index");
        let of: de::value::U32Deserializer<Refused> = variant.into_deserializer();
        Ok((seed.deserialize(of)?, Draw { dice: self.dice, depth: self.depth }))
    }
}

impl<'de> de::VariantAccess<'de> for Draw<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<T: de::DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refused> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Refused> {
        de::Deserializer::deserialize_tuple(self, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Refused> {
        de::Deserializer::deserialize_tuple(self, fields.len(), visitor)
    }
}
