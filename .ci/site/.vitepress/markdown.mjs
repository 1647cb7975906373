// The differences between Markdown on GitHub, for which the pages are written, and VitePress.
import { existsSync, statSync } from 'node:fs'
import path from 'node:path'

// anchor returns the anchor that GitHub makes for a heading; relay/docs_links_test.go has the same rule.
export function anchor(heading) {
  return heading.toLowerCase().replace(/ /g, '-').replace(/[^\p{L}\p{Nd}_-]/gu, '')
}

// toRepository is a plugin for markdown-it. It replaces links to files outside docs with links to the
// repository. A link to a file that does not exist fails the build.
export function toRepository(md, { root, docs, link }) {
  md.core.ruler.push('to_repository', ({ tokens, env }) => {
    for (const token of tokens.flatMap((t) => t.children ?? [])) {
      const href = token.type === 'link_open' && token.attrGet('href')
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue
      const [target, fragment] = href.split('#')
      const file = path.resolve(path.dirname(env.path), decodeURI(target))
      if (file === docs || file.startsWith(docs + path.sep)) continue
      if (!file.startsWith(root + path.sep) || !existsSync(file)) {
        throw new Error(`${env.relativePath}: the link to ${href} leads nowhere`)
      }
      const url = link(path.relative(root, file).replaceAll(path.sep, '/'), statSync(file).isDirectory())
      token.attrSet('href', fragment ? `${url}#${fragment}` : url)
    }
  })
}

// verbatim is a plugin for markdown-it. Pages have no templates: braces in their text are text.
export function verbatim(md) {
  for (const rule of ['text', 'code_inline']) {
    const render = md.renderer.rules[rule]
    md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
}

// navigation makes the sidebar from the map, docs/index.md: a group for each heading, with the links in
// the first column of its table.
export function navigation(map, link) {
  const groups = []
  for (const line of map.split('\n')) {
    const heading = line.match(/^## (.*)$/)
    if (heading) groups.push({ text: heading[1], items: [] })
    if (!groups.length || !line.startsWith('| [')) continue
    for (const [i, [, text, target]] of [...line.split(' | ')[0].matchAll(/\[([^\]]+)\]\(([^)]+)\)/g)].entries()) {
      groups.at(-1).items.push({
        text: i ? text[0].toUpperCase() + text.slice(1) : text, // the others are in lower case, as parts of a sentence
        link: target.startsWith('../') ? link(target.slice('../'.length), false) : '/' + target.replace(/\.md$/, ''),
      })
    }
  }
  if (groups.some((g) => !g.items.length)) throw new Error('docs/index.md has a heading without a table of links')
  return groups
}
