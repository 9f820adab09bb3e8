//! Functions in C, of several shapes, with names, numbers and comments of their own.

use super::Prose;

/// A function and how it is called: `NAME(state, sum)`.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) text: String,
}

impl Function {
    /// The next function of a module.
    pub(super) fn write(module: &str, prose: &mut Prose) -> Self {
        let name = format!("{module}_{}", prose.name());
        let shape = SHAPES[prose.below(SHAPES.len())];
        let text = shape.replace("$name", &name).replace("$table", &table(prose));
        Self { name, text: filled(&text, prose) }
    }
}

/// Puts a comment, a number or a word of its own in every place for one. A digit behind it means: the same one as
/// everywhere else in this function.
fn filled(shape: &str, prose: &mut Prose) -> String {
    let mut text = shape.to_owned();
    for digit in 0..6 {
        let word = format!("{}_{}", prose.noun(), prose.noun());
        text = text.replace(&format!("$word{digit}"), &word);
    }
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once('$') {
        out += before;
        let (value, used) = match after {
            _ if after.starts_with("say") => (prose.comment(2), 3),
            _ if after.starts_with("tell") => (prose.comment(6), 4),
            _ if after.starts_with("shift") => ((prose.number() % 31 + 1).to_string(), 5),
            _ => (prose.number().to_string(), "number".len()),
        };
        out += &value;
        rest = &after[used..];
    }
    out + rest
}

/// Numbers for a table, in lines.
fn table(prose: &mut Prose) -> String {
    let lines: Vec<String> = (0..4 + prose.below(12))
        .map(|_| (0..8).map(|_| format!("{:>6}", prose.below(30_000))).collect::<Vec<_>>().join(", "))
        .collect();
    lines.join(",\n    ")
}

const SHAPES: &[&str] = &[LOOP, STATES, TABLE, LINE, SORT, SEARCH, LIST, BITS];

const LOOP: &str = "/*$tell */
static uint32_t $name(struct state *state, uint32_t $word0)
{
    uint32_t $word1 = $numberu;
    size_t i;

    for (i = 0; i < SQUARES; i++) {
        /*$say */
        if (state->squares[i] % $numberu > $word1 % $numberu) {
            $word1 += state->squares[i] ^ ($word0 >> $shift);
        } else {
            state->squares[i] += $word0 * $numberu + (uint32_t)i;
        }
        $word1 = mix($word1, state->counts[(i * $number) % SQUARES]);
    }
    return $word1;
}

";

const STATES: &str = "/*$tell */
static uint32_t $name(struct state *state, uint32_t $word0)
{
    enum { $word1_BEGIN, $word1_WITHIN, $word1_BEYOND, $word1_END } at = $word1_BEGIN;
    uint32_t steps = 0, $word2 = $word0;

    while (at != $word1_END && steps++ < $numberu) {
        switch (at) {
        case $word1_BEGIN:
            $word2 = mix($word2, $numberu);
            at = $word2 & $number ? $word1_WITHIN : $word1_BEYOND;
            break;
        case $word1_WITHIN:
            /*$say */
            state->counts[$word2 % SQUARES]++;
            $word2 = $word2 * $numberu + $number;
            at = ($word2 >> $shift) % 3 ? $word1_BEYOND : $word1_BEGIN;
            break;
        case $word1_BEYOND:
            if ($word2 % $numberu == 0)
                at = $word1_END;
            else
                at = $word1_WITHIN;
            $word2 ^= state->squares[steps % SQUARES];
            break;
        case $word1_END:
            break;
        }
    }
    return $word2;
}

";

const TABLE: &str = "/*$say */
static const uint16_t $name_table[] = {
    $table
};

/*$tell */
static uint32_t $name(struct state *state, uint32_t $word0)
{
    const size_t len = sizeof $name_table / sizeof $name_table[0];
    uint32_t $word1 = 0;
    size_t i;

    for (i = 0; i < len; i++) {
        uint32_t $word2 = $name_table[(i + $word0) % len];

        state->squares[i % SQUARES] += $word2;
        $word1 = mix($word1, $word2 * $numberu);
    }
    return $word1;
}

";

const LINE: &str = "/*$say */
static uint32_t $name(struct state *state, uint32_t $word0)
{
    int written = snprintf(state->line, sizeof state->line, \"$word1 %u of $word2 %u: $word3\",
                           (unsigned)$word0, (unsigned)state->counts[$number % SQUARES]);
    const char *at = state->line;
    uint32_t $word4 = $numberu;

    if (written < 0)
        return $word0;
    state->used = (size_t)written < sizeof state->line ? (size_t)written : sizeof state->line - 1;
    while (*at != '\\0') {
        /*$say */
        if (*at == ' ' || *at == ':')
            $word4 = mix($word4, $numberu);
        else
            $word4 = $word4 * 31 + (unsigned char)*at;
        at++;
    }
    return $word4 + (uint32_t)strlen(state->line);
}

";

const SORT: &str = "/*$say */
static uint32_t $name(struct state *state, uint32_t $word0)
{
    size_t i, j;

    for (i = 1; i < SQUARES; i++) {
        uint32_t $word1 = state->squares[i];

        for (j = i; j > 0 && state->squares[j - 1] % $numberu > $word1 % $numberu; j--)
            state->squares[j] = state->squares[j - 1];
        state->squares[j] = $word1;
    }
    /*$say */
    return state->squares[$word0 % SQUARES] + $number;
}

";

const SEARCH: &str = "/*$tell */
static int32_t $name_below(const struct state *state, int32_t alpha, int32_t beta, unsigned depth)
{
    int32_t best = alpha;
    unsigned i;

    if (depth == 0)
        return (int32_t)(state->squares[(unsigned)alpha % SQUARES] % $number);
    for (i = 0; i < 3; i++) {
        int32_t $word1 = -$name_below(state, -beta, -best, depth - 1) + (int32_t)i * $number;

        /*$say */
        if ($word1 > best)
            best = $word1;
        if (best >= beta)
            break;
    }
    return best;
}

static uint32_t $name(struct state *state, uint32_t $word0)
{
    int32_t $word2 = $name_below(state, -$number, $number, 3 + $word0 % 3);

    state->counts[$word0 % SQUARES] += (uint32_t)$word2;
    return (uint32_t)$word2 ^ $numberu;
}

";

const LIST: &str = "struct $name_entry {
    struct $name_entry *next;
    uint32_t $word1;
    char $word2[$shift];
};

/*$tell */
static uint32_t $name(struct state *state, uint32_t $word0)
{
    struct $name_entry *first = NULL;
    uint32_t $word3 = $word0;
    size_t i;

    for (i = 0; i < SQUARES; i += 1 + $shift) {
        struct $name_entry *new = calloc(1, sizeof *new);

        if (new == NULL)
            break;
        new->$word1 = state->squares[i] + $number;
        new->next = first;
        first = new;
    }
    /*$say */
    while (first != NULL) {
        struct $name_entry *next = first->next;

        $word3 = mix($word3, first->$word1 + (unsigned char)first->$word2[0]);
        free(first);
        first = next;
    }
    return $word3;
}

";

const BITS: &str = "/*$say */
static uint32_t $name(struct state *state, uint32_t $word0)
{
    uint64_t $word1 = (uint64_t)$word0 * $numberu | (uint64_t)$number << 32;
    unsigned $word2 = 0;

    while ($word1 != 0 && $word2 < SQUARES) {
        /*$say */
        uint64_t lowest = $word1 & (~$word1 + 1);

        $word1 ^= lowest;
        state->counts[$word2++] ^= (uint32_t)(lowest >> $shift) + $number;
    }
    return $word2 * $numberu;
}

";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_place_is_left_open() {
        let mut prose = Prose::new(3);
        for _ in 0..200 {
            let function = Function::write("m", &mut prose);
            assert!(!function.text.contains('$'), "{}", function.text);
            assert!(function.text.contains(&format!("{}(struct state *state", function.name)));
        }
    }
}
