package relay_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	named      = regexp.MustCompile(`\[[a-z0-9]+(-[a-z0-9]+)+\]\([^)]*\)`) // a link to a file by its name
	link       = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	lineBreak  = regexp.MustCompile(`<br>|</(p|li|td|h\d)>`) // which ends a sentence
	htmlTag    = regexp.MustCompile(`<[^>]*>`)
	emphasis   = regexp.MustCompile(`\*\*`)
	listMark   = regexp.MustCompile(`^\s*([-*]|\d+\.) `)
	question   = regexp.MustCompile(`(?i)^(who|what|where|when|why|how|if|whether)\b`)
)

// proseOfPage returns the blocks of prose of a Markdown page, by the line on which each begins, and what is
// wrong with its headings.
func proseOfPage(text string) (blocks map[int]string, wrong []string) {
	blocks = make(map[int]string)
	code, start := false, 0
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code, start = !code, 0
			continue
		}
		plain := emphasis.ReplaceAllString(htmlTag.ReplaceAllString(lineBreak.ReplaceAllString(link.ReplaceAllString(named.ReplaceAllString(inlineCode.ReplaceAllString(line, "CODE"), "CODE"), "$1"), ". "), ""), "")
		switch {
		case code:
		case strings.TrimSpace(plain) == "":
			start = 0
		case strings.HasPrefix(plain, "#"):
			start = 0
			heading := strings.TrimSpace(strings.TrimLeft(plain, "#"))
			if question.MatchString(heading) && !strings.HasPrefix(heading, "How to ") && !strings.HasSuffix(heading, "?") {
				wrong = append(wrong, fmt.Sprintf("line %d: the heading %q is a clause; write the noun that readers search for", i+1, heading))
			}
			blocks[i+1] = heading
		case strings.HasPrefix(strings.TrimSpace(plain), "|"):
			start = 0
			blocks[i+1] = strings.ReplaceAll(plain, "|", ". ")
		case listMark.MatchString(plain):
			start = i + 1
			blocks[start] = listMark.ReplaceAllString(plain, "")
		default:
			if start == 0 {
				start = i + 1
			}
			blocks[start] += " " + plain
		}
	}
	return blocks, wrong
}

// proseOfYAML returns the blocks of comments of a YAML file.
func proseOfYAML(text string) map[int]string {
	blocks, start := make(map[int]string), 0
	for i, line := range strings.Split(text, "\n") {
		comment, is := strings.CutPrefix(strings.TrimSpace(line), "#")
		comment = strings.TrimLeft(comment, "#@ ")
		if !is || comment == "" {
			start = 0
			continue
		}
		if start == 0 {
			start = i + 1
		}
		blocks[start] += " " + inlineCode.ReplaceAllString(comment, "CODE")
	}
	return blocks
}

// proseOfFields returns the texts of alerts, dashboards and the API: values of summary, description and title.
func proseOfFields(text string) map[int]string {
	blocks, key, start := make(map[int]string), "", 0
	for i, line := range strings.Split(text, "\n") {
		trimmed := strings.TrimLeft(strings.TrimSpace(line), "- ")
		k, v, ok := strings.Cut(trimmed, ":")
		if k = strings.Trim(k, `"`); ok && !strings.Contains(k, " ") {
			if key, start = k, i+1; isText(key) {
				blocks[start] = " " + strings.Trim(v, ` >|"-,`)
			}
		} else if isText(key) {
			blocks[start] += " " + trimmed
		}
	}
	for line, block := range blocks {
		blocks[line] = inlineCode.ReplaceAllString(block, "CODE")
	}
	return blocks
}

func isText(key string) bool { return key == "summary" || key == "description" || key == "title" }

var (
	scriptComment  = regexp.MustCompile(`(?m)^\s*//.*$`)
	scriptText     = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|'(?:[^'\\\\\n]|\\\\.)*'|`[^`]*`")
	scriptValue    = regexp.MustCompile(`\$\{[^}]*\}`)
	templateAction = regexp.MustCompile(`\{\{[^}]*\}\}`)
)

// proseOfScript returns the texts of the live page: each string with more than one word.
func proseOfScript(text string) map[int]string {
	blocks := make(map[int]string)
	text = scriptComment.ReplaceAllString(text, "")
	for _, at := range scriptText.FindAllStringIndex(text, -1) {
		if s := scriptValue.ReplaceAllString(text[at[0]+1:at[1]-1], "X"); words.MatchString(s) {
			blocks[1+strings.Count(text[:at[0]], "\n")] += ". " + s
		}
	}
	return blocks
}

var (
	verb  = regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	words = regexp.MustCompile(`[A-Za-z]{2,}[,;:]? [A-Za-z(%"]`)
)

// proseOfGo returns the texts of a program that users may read: each string with more than one word.
func proseOfGo(name, text string) (map[int]string, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	blocks := make(map[int]string)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr: // a text in several pieces
			if s, ok := joined(n); ok {
				add(blocks, files.Position(n.Pos()).Line, s)
				return false
			}
		case *ast.BasicLit:
			if s, ok := joined(n); ok {
				add(blocks, files.Position(n.Pos()).Line, s)
			}
		}
		return true
	})
	return blocks, nil
}

func add(blocks map[int]string, line int, s string) {
	if strings.Contains(s, "\n|---") { // a page in Markdown
		page, _ := proseOfPage(s)
		for n, block := range page {
			blocks[line+n-1] += ". " + verb.ReplaceAllString(block, "X")
		}
		return
	}
	// Scripts of Redis are no prose.
	if words.MatchString(s) && !strings.Contains(s, "://") && !strings.Contains(s, "redis.call(") {
		s = strings.ReplaceAll(s, "\n  ", ". ") // an indented line is an item of a list
		blocks[line] += ". " + verb.ReplaceAllString(inlineCode.ReplaceAllString(s, "CODE"), "X")
	}
}

// joined returns the text of strings that are added to each other.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		x, okX := joined(e.X)
		y, okY := joined(e.Y)
		return x + y, e.Op == token.ADD && okX && okY
	}
	return "", false
}
