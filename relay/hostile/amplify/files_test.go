package amplify

func readFiles(path string) {}
