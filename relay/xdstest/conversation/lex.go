package conversation

import (
	"fmt"
	"strings"
	"unicode"
)

// word is one word of a line. Quotes and braces are taken off.
type word struct {
	text   string // without quotes and attributes
	quoted bool   // some of it was in quotes, so it is no keyword
	equals int    // where in text the last '=' outside of quotes is; -1 for none
	attrs  []word // what was in braces
	braces bool   // there were braces
}

// is reports whether the word is the given keyword.
func (w word) is(keyword string) bool { return !w.quoted && !w.braces && w.text == keyword }

// split cuts a word at its last '=' outside of quotes.
func (w word) split() (before, after string, ok bool) {
	if w.equals < 0 {
		return w.text, "", false
	}
	return w.text[:w.equals], w.text[w.equals+1:], true
}

// String is the word as a script may write it.
func (w word) String() string {
	text := w.text
	if w.quoted {
		text = fmt.Sprintf("%q", w.text)
	}
	if !w.braces {
		return text
	}
	inner := make([]string, len(w.attrs))
	for i, a := range w.attrs {
		inner[i] = a.String()
	}
	return text + "{" + strings.Join(inner, " ") + "}"
}

// lexer cuts a line into words. Words are separated by spaces; quotes ('…' or
// "…") keep spaces, '=' and '#' in a word; {…} right after a word holds its
// attributes; a comma after a word is a word; '#' begins a comment where a word
// could begin; $NAME stands for what `let NAME` has set, as if it were quoted.
type lexer struct {
	rest []rune
	lets map[string]string
}

func lex(line string, lets map[string]string) ([]word, error) {
	l := lexer{rest: []rune(line), lets: lets}
	words, err := l.words(false)
	if err != nil {
		return nil, err
	}
	return words, nil
}

// words reads until the end of the line or, inside of braces, until they close.
func (l *lexer) words(inside bool) ([]word, error) {
	var words []word
	for {
		l.skipSpaces()
		switch {
		case len(l.rest) == 0 && inside:
			return nil, fmt.Errorf("a { is not closed")
		case len(l.rest) == 0, l.rest[0] == '#' && !inside:
			return words, nil
		case l.rest[0] == '}':
			if !inside {
				return nil, fmt.Errorf("a } closes nothing")
			}
			l.rest = l.rest[1:]
			return words, nil
		case l.rest[0] == ',':
			l.rest = l.rest[1:]
			words = append(words, word{text: ",", equals: -1})
			continue
		}
		w, err := l.word()
		if err != nil {
			return nil, err
		}
		words = append(words, w)
	}
}

func (l *lexer) skipSpaces() {
	for len(l.rest) > 0 && unicode.IsSpace(l.rest[0]) {
		l.rest = l.rest[1:]
	}
}

func (l *lexer) word() (word, error) {
	w := word{equals: -1}
	var text strings.Builder
	for len(l.rest) > 0 {
		c := l.rest[0]
		switch {
		case unicode.IsSpace(c), c == '}', c == ',' && l.endsAfterComma():
			w.text = text.String()
			return w, nil
		case c == '\'' || c == '"':
			inner, err := l.quoted(c)
			if err != nil {
				return word{}, err
			}
			text.WriteString(inner)
			w.quoted = true
			continue
		case c == '$' && text.Len() == 0:
			value, err := l.variable()
			if err != nil {
				return word{}, err
			}
			text.WriteString(value)
			w.quoted = true
			continue
		case c == '{':
			l.rest = l.rest[1:]
			attrs, err := l.words(true)
			if err != nil {
				return word{}, err
			}
			w.text, w.attrs, w.braces = text.String(), attrs, true
			if len(l.rest) > 0 && !unicode.IsSpace(l.rest[0]) && l.rest[0] != ',' && l.rest[0] != '}' {
				return word{}, fmt.Errorf("a space is missing after }")
			}
			return w, nil
		case c == '=':
			w.equals = text.Len()
		}
		text.WriteRune(c)
		l.rest = l.rest[1:]
	}
	w.text = text.String()
	return w, nil
}

// endsAfterComma reports whether the comma that comes next ends a word, rather
// than being in the middle of one.
func (l *lexer) endsAfterComma() bool { return len(l.rest) == 1 || unicode.IsSpace(l.rest[1]) }

func (l *lexer) quoted(quote rune) (string, error) {
	for i := 1; i < len(l.rest); i++ {
		if l.rest[i] == quote {
			inner := string(l.rest[1:i])
			l.rest = l.rest[i+1:]
			return inner, nil
		}
	}
	return "", fmt.Errorf("a %c is not closed", quote)
}

// variable reads $NAME. Names that `let` has not set are left as they are: they
// may be what a client has remembered.
func (l *lexer) variable() (string, error) {
	n := 1
	for n < len(l.rest) && (unicode.IsLetter(l.rest[n]) || unicode.IsDigit(l.rest[n]) || l.rest[n] == '_') {
		n++
	}
	name := string(l.rest[1:n])
	if name == "" {
		return "", fmt.Errorf("a $ is followed by no name; quote it if it is meant as it is")
	}
	l.rest = l.rest[n:]
	if value, ok := l.lets[name]; ok {
		return value, nil
	}
	return "$" + name, nil
}
