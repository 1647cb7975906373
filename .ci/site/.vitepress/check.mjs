// A check of the rendered site: VitePress itself checks no anchors.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'

// checkSite fails if a link of a page in dir leads to a file or an anchor that the site does not have.
export function checkSite(dir, base) {
  const pages = new Map()
  for (const name of readdirSync(dir, { recursive: true })) {
    if (!name.endsWith('.html')) continue
    const html = readFileSync(path.join(dir, name), 'utf8')
    pages.set(name.replaceAll(path.sep, '/'), {
      ids: new Set([...html.matchAll(/\sid="([^"]+)"/g)].map((m) => m[1])),
      links: new Set([...html.matchAll(/\s(?:href|src)="([^"]+)"/g)].map((m) => m[1].replaceAll('&amp;', '&'))),
    })
  }
  const dead = []
  for (const [name, { links }] of pages) {
    for (const link of links) {
      const url = new URL(link, `site://site${base}${name}`)
      if (url.protocol !== 'site:') continue
      const file = decodeURI(url.pathname)
      const local = (file.startsWith(base) ? file.slice(base.length) : '..' + file).replace(/^$|\/$/, '$&index.html')
      const fragment = decodeURIComponent(url.hash.slice(1))
      if (!existsSync(path.join(dir, local))) dead.push(`${name}: the link to ${link} leads nowhere`)
      else if (fragment && !pages.get(local)?.ids.has(fragment)) dead.push(`${name}: ${link} has no such anchor`)
    }
  }
  const count = [...pages.values()].reduce((sum, p) => sum + p.links.size, 0)
  if (pages.size < 10 || count < 100) dead.push(`only ${pages.size} pages with ${count} links: did the HTML change?`)
  if (dead.length) throw new Error(`${dead.length} dead links:\n${dead.join('\n')}`)
  console.log(`${pages.size} pages with ${count} links, none dead`)
}
